"""The cost of groups, compared with Apache Kafka: `python -m bench.groups`.

- `settle`: a thousand members of one group join, over 5 000 partitions, then one of them leaves;
  in the classic protocol and in that of KIP-848. How long until all partitions have an owner
  again, and how long our loop was busy at a stretch.
- `commits`: 5 000 groups commit once a second each. The processor time of the broker.
- `restart`: five million commits are in the log when the broker starts. How long until all groups
  are served, while another topic is written to.

The load is one process with our own codecs on plain sockets (`connection`), the same for both.
"""
