"""A small synchronous client: standard-library sockets, blocking calls, no threads.

The command line, the Spark source, the demo and the console use it. It works with any broker that
speaks Apache Kafka's protocol. Its modules, from the bottom up:

- `connection` is one socket: it negotiates versions, pipelines requests, and receives responses in
  order.
- `cluster` finds brokers: bootstrap, metadata, leaders and coordinators, retry with back-off.
- `producer` batches records per partition, idempotently; `partitioner` picks the partition.
- `fetcher` keeps one fetch in flight to every leader; `consumer` reads records by assignment;
  `membership` joins a classic group, and `group_consumer` combines the two.
- `offsets` turns "earliest", "latest" or a time into offsets; `commits` fetches and commits a
  group's offsets.
- `admin/` has one module per subject: topics, configs, groups, the cluster.

No object here may be used by two threads at once. Failures raise a `ClientError`: a `BrokerError`
(with its `ErrorCode`) if a broker returned the error, another subclass otherwise. Each has
`advice`, one sentence about what the user can do. If one call concerns many topics or partitions,
the result holds a `BrokerError` for each that failed.
"""
