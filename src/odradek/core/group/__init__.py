"""The group coordinator's state machine: groups, their members, and committed offsets.

A `GroupMachine` (`coordinator/machine`) has the groups of one partition of `__consumer_offsets`. It consists of
small parts that share a `GroupState` (`state`). The `GroupState` has the groups by id, the clock,
the timers, the journal and the settings.

- `classic/`: the classic protocol, in which a group leader computes the assignment (JoinGroup,
  SyncGroup);
- `consumer/`: the consumer protocol, in which the coordinator computes the assignment (KIP-848),
  and the migration of groups between the two protocols;
- `share/`: share groups (KIP-932);
- `streams/`: Streams groups (KIP-1071);
- `modern/`: what all groups whose assignments are computed by the coordinator have in common;
- `offset_store`: the committed offsets of a group;
- `offsets/`: commits and fetches offsets, and deletes them on request or after their retention;
- `records`: the types of the records in the log;
- `coordinator/listing`: ListGroups, DescribeGroups, ConsumerGroupDescribe and DeleteGroups.

Sources: KIP-62, KIP-134, KIP-345, KIP-394, KIP-496, KIP-559, KIP-814, KIP-848, KIP-932, KIP-1043,
KIP-1071 and Apache Kafka's `GroupMetadataManager` and `OffsetMetadataManager`.
"""
