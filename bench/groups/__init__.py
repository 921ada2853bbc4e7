"""Compares the cost of groups with Apache Kafka: `python -m bench.groups`.

- `settle`: a thousand members join one group with 5 000 partitions, then one member leaves; in the
  classic protocol and in the protocol of KIP-848. Measures the time until all partitions have an
  owner again, and the longest pause of Odradek's event loop.
- `commits`: each of 5 000 groups commits once per second. Measures the broker's processor time.
- `restart`: the log has five million commits when the broker starts. Measures the time until all
  groups are served, while records are written to another topic.

The load is one process that uses Odradek's codecs on plain sockets (`connection`). It is the same
for both brokers.
"""
