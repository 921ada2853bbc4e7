"""A small synchronous client: standard-library sockets, blocking calls, no threads.

For the command line, the Spark source, the demo and the console; it speaks to any broker of
Apache Kafka's protocol. From the bottom up:

- `connection` is one socket: versions negotiated, requests pipelined, answers in order.
- `cluster` knows the brokers: bootstrap, metadata, leaders and coordinators, retry with back-off.
- `producer` batches records per partition, idempotently; `partitioner` picks the partition.
- `fetcher` keeps a fetch under way at every leader; `consumer` reads records by assignment;
  `membership` joins a classic group, and `group_consumer` puts the two together.
- `offsets` turns "earliest", "latest" or a time into offsets; `commits` are a group's offsets.
- `admin/` is one file per subject: topics, configs, groups, the cluster.

Nothing here may be used by two threads at once. What fails raises a `ClientError`: a
`BrokerError` where a broker said so (with its `ErrorCode`), another of its kinds otherwise; each
carries `advice`, one sentence on what to do about it. Where one call concerns many topics or
partitions, the result holds a `BrokerError` in the place of what failed.
"""
