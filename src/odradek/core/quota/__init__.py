"""Quotas: how much clients may send, fetch, compute, change and connect (KIP-13, 124, 219, 599, 612).

- `rate` measures rates in the windows of Kafka's Rate; `token_bucket` is Kafka's TokenBucket.
- `limits` finds the limit that applies to a client, among those of its user and its client id.
- `clients` measures the clients, and computes for how long they are throttled.
- `connections` does the same for new connections.

The classes perform no IO. Times are arguments. They need not be the time of day.
"""
