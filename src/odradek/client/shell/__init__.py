"""What performs the decisions of the client's machines (`odradek.client.core`).

- `driver` has the connections of a client: it sends, receives and waits.
- `keeper` has what all blocking shells have: a lock (`exclusive`), and a thread that drives while the
  caller does not.
- `settings` reads Kafka's settings.
"""
