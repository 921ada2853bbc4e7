"""A small synchronous client. It uses the standard library's sockets and no threads, except for
`ShareConsumer` with `renews`.

The command line and the Spark source use the client. The client works with any broker that speaks
Apache Kafka's protocol. The modules, from the lowest layer to the highest:

- `connection` is one socket: it negotiates versions, pipelines requests, and receives responses in
  order.
- `cluster` finds brokers, leaders and coordinators, and retries requests with back-off.
- `producer` writes batches of records, idempotently; `partitioner` chooses the partition.
- `fetcher` keeps one fetch in flight to every leader. `consumer` reads records of the partitions
  that the caller assigns. `membership` joins a classic group. `group_consumer` reads the partitions
  that the group assigns to the member.
- `share/` is a member of a share group: `consumer`, its state machines, and `keeper`, its optional
  thread.
- `transactions` begins and ends transactions, which several processes can share.
- `offsets` converts "earliest", "latest" or a time to offsets; `commits` fetches and commits a
  group's offsets.
- `admin/` has one module per subject: topics, configs, groups, transactions, the cluster.

Two threads may not use an object at the same time. Failures raise a `ClientError`. The error is a
`BrokerError` (with its `ErrorCode`) if a broker returned the error. An error may have `advice`, a
sentence about what the user can do. Invalid arguments raise ValueError. If a call concerns many
topics or partitions, the result usually holds an error for each topic or partition that failed.
"""
