"""Quotas limit the requests and connections of clients (KIP-13, 124, 219, 599, 612).

- `rate` measures rates in the windows of Kafka's Rate; `token_bucket` is Kafka's TokenBucket.
- `limits` finds the limit that applies to a client, among those of its user and its client id.
- `clients` measures the clients, and computes for how long they are throttled.
- `connections` does the same for new connections.

The limits are for bytes that are produced or fetched, for processing time, for partitions that are
created or deleted, and for new connections. The classes perform no IO. Times are arguments, and may
be those of any clock.
"""
