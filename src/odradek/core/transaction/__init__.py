"""The transaction coordinator's machine: which producer may write, and how its transactions end.

One `TransactionMachine` (`machine`) holds the transactional ids of one partition of
`__transaction_state`. It is put together from small parts that share a `TransactionState`
(`state`):

- `phases`: the phases of a transaction and the legal moves between them;
- `transaction`: what is known of one transactional id, and how it moves on;
- `initialization`: InitProducerId, which fences whoever used the id before;
- `partitions`: which partitions belong to the open transaction (AddPartitionsToTxn);
- `ending`: EndTxn in version 1 and version 2 of the protocol (KIP-890), and the coordinator's
  own aborts;
- `completion`: the markers in the partitions, and the last record after them;
- `chores`: what time brings: timeouts and forgotten ids;
- `listing`: DescribeTransactions and ListTransactions; `records`: what is written.

How a transaction ends, and what a crash leaves behind at each step:

    EndTxn ──> PrepareCommit written ──> committed ──> markers written ──> CompleteCommit written
       │ crash: still Ongoing,  │ crash: whoever loads the log sends the markers (again); the
       │ the client asks again  │ partitions take a second marker for what it is

Sources: KIP-98, KIP-360, KIP-447, KIP-664, KIP-890, KIP-939, KIP-1152 and Apache Kafka's
`TransactionCoordinator`, `TransactionMetadata` and `TransactionStateManager`.
"""
