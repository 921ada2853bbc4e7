"""The transaction coordinator's machine: fencing of producers, and the end of transactions.

One `TransactionMachine` (`machine`) holds the transactional ids of one partition of
`__transaction_state`. It is put together from small parts that share a `TransactionState`
(`state`):

- `phases`: the phases of a transaction and the legal transitions between them;
- `transaction`: the state of one transactional id, and its transitions;
- `initialization`: InitProducerId, which fences earlier producers with the id;
- `partitions`: which partitions belong to the open transaction (AddPartitionsToTxn);
- `ending`: EndTxn in version 1 and version 2 of the protocol (KIP-890), and the coordinator's
  own aborts;
- `completion`: the markers in the partitions, and the last record after them;
- `chores`: periodic work: timeouts and expired ids;
- `listing`: DescribeTransactions and ListTransactions; `records`: the records of the log.

How a transaction ends, and what follows a crash at each step:

    EndTxn ──> PrepareCommit written ──> committed ──> markers written ──> CompleteCommit written
       │ crash: still Ongoing,  │ crash: the next coordinator sends the markers (again); the
       │ the client retries     │ partitions recognise a second marker

Sources: KIP-98, KIP-360, KIP-447, KIP-664, KIP-890, KIP-939, KIP-1152 and Apache Kafka's
`TransactionCoordinator`, `TransactionMetadata` and `TransactionStateManager`.
"""
