"""A small synchronous client. It uses the standard library's sockets and no threads.

The command line, the Spark source, the demo and the console use it. It works with any broker that
speaks Apache Kafka's protocol. Its modules, from the bottom up:

- `connection` is one socket: it negotiates versions, pipelines requests, and receives responses in
  order.
- `cluster` finds brokers, leaders and coordinators, and retries requests with back-off.
- `producer` writes batches of records, idempotently; `partitioner` chooses the partition.
- `fetcher` keeps one fetch in flight to every leader; `consumer` reads records by assignment;
  `membership` joins a classic group, and `group_consumer` combines the two.
- `offsets` converts "earliest", "latest" or a time to offsets; `commits` fetches and commits a
  group's offsets.
- `admin/` has one module per subject: topics, configs, groups, the cluster.

No object here may be used by two threads at once. Failures raise a `ClientError`: a `BrokerError`
(with its `ErrorCode`) if a broker returned the error, another subclass otherwise. An error may have
`advice`, a sentence about what the user can do. If one call concerns many topics or partitions, the
result holds an error for each topic or partition that failed.
"""
