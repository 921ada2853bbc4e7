"""Transactions and their coordinator."""

SETTINGS = """
[honoured]
transaction.max.timeout.ms  int  = 900000  >=1  high
    Maximum timeout of a transaction.
transactional.id.expiration.ms  int  = 604800000  >=1  high
    An idle transactional id expires after this time.
transaction.state.log.replication.factor  short  = 3  >=1  high
    Replication factor of `__transaction_state`.
transaction.state.log.num.partitions  int  = 50  >=1  high
    Number of partitions of `__transaction_state`. Do not change it after the topic has been created.
transaction.state.log.segment.bytes  int  = 104857600  >=1  high
    Segment size of `__transaction_state`.
transaction.state.log.min.isr  int  = 2  >=1  high
    Minimum number of in-sync replicas of `__transaction_state`.
transaction.state.log.load.buffer.size  int  = 5242880  >=1  high
    Number of bytes that are read at once when transactions are loaded.
transaction.abort.timed.out.transaction.cleanup.interval.ms  int  = 10000  >=1  low
    How often timed-out transactions are aborted.
transaction.remove.expired.transaction.cleanup.interval.ms  int  = 3600000  >=1  low
    How often expired transactional ids are removed.
transaction.partition.verification.enable  boolean  = true  low  cluster-wide
    Ask the coordinator whether a partition is part of a transaction before the first append.
add.partitions.to.txn.retry.backoff.ms  int  = 20  >=1  high
    Pause between retries to add a partition while the previous transaction is not complete.
add.partitions.to.txn.retry.backoff.max.ms  int  = 100  >=0  high
    Maximum total time of the retries to add a partition.
transaction.two.phase.commit.enable  boolean  = false  low
    Let an external coordinator decide on transactions (KIP-939). Clients request it with version 6 of InitProducerId, which is served with `unstable.api.versions.enable` only.
"""
