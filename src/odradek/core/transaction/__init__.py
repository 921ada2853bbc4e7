"""The state machine of the transaction coordinator: it fences producers and ends transactions.

A `TransactionMachine` (`machine`) has the transactional ids of one partition of
`__transaction_state`. It consists of small parts that share a `TransactionState` (`state`):

- `phases`: the phases of a transaction, and the legal transitions between them;
- `transaction`: the state of one transactional id, and its transitions;
- `initialization`: InitProducerId, which fences earlier producers with the same id;
- `partitions`: AddPartitionsToTxn, which adds partitions to the open transaction;
- `ending`: EndTxn in version 1 and version 2 of the protocol (KIP-890), and the coordinator's
  own aborts;
- `completion`: writes the markers to the partitions, and then the last record;
- `markers` and `membership_questions`: what is sent to other brokers, one request at a time to
  each;
- `periodic_tasks`: aborts transactions after their timeout, and removes expired ids;
- `listing`: DescribeTransactions and ListTransactions;
- `records`: the records of the log.

A transaction is committed in these steps:

1. The coordinator receives EndTxn and appends a PrepareCommit record. If the coordinator crashes
   before this record is committed, the transaction is still open, and the producer sends EndTxn
   again.
2. When the record is committed, the coordinator sends markers to all partitions. If the coordinator
   crashes from now on, the next coordinator sends the markers again. A second marker has no effect.
3. When all markers are written, the coordinator appends a CompleteCommit record.

A transaction is aborted in the same steps, with the records PrepareAbort and CompleteAbort.

Sources: KIP-98, KIP-360, KIP-447, KIP-664, KIP-890, KIP-939, KIP-1152 and Apache Kafka's
`TransactionCoordinator`, `TransactionMetadata` and `TransactionStateManager`.
"""
