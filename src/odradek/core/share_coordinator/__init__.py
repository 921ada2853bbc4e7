"""The state machine of the share coordinator: the durable state of share partitions (KIP-932).

A share partition is a partition of a topic, as one share group consumes it. Its state is the start
offset and, for the records after the start offset, batches of records with the same delivery state
and delivery count. The leader of the topic's partition reads the state when it begins to serve the
share partition, and writes each change. The group coordinator creates the state before it assigns
the partition, and deletes it with the group.

A `ShareCoordinatorMachine` (`machine`) has the share partitions of one partition of
`__share_group_state`:

- `key`: the names of share partitions; their hash selects the partition of the topic;
- `state_batches`: combines the batches of the state with the batches of a change;
- `share_state`: the state of one share partition, and its changes;
- `share_states`: the states of all share partitions, and the offsets of their last snapshots;
- `records`: the records of the log.

The log has two kinds of records. A ShareSnapshot has the whole state. A ShareUpdate has the changes
since the last snapshot. After `share.coordinator.snapshot.update.records.per.snapshot` updates, the
next change is written as a snapshot. The log is not compacted: records before the oldest of the
last snapshots of all share partitions are deleted. Share partitions whose last snapshot is old get
a new snapshot, so that they do not prevent this.

Two epochs fence old writers. The state epoch is higher after each initialization. The leader epoch
is the epoch of the leader that has read the state.

The model is Apache Kafka's `ShareCoordinatorShard`, `PersisterStateBatchCombiner` and
`ShareCoordinatorOffsetsManager`.
"""
