"""The group coordinator's state machine: groups, their members, and committed offsets.

One `GroupMachine` (`machine`) holds the groups of one partition of `__consumer_offsets`. It
consists of small parts that share a `GroupState` (`state`): the groups by id, clock, timers,
journal, settings.

- `classic/`: the classic protocol, in which a group leader computes the assignment (JoinGroup,
  SyncGroup);
- `consumer/`: the consumer protocol, in which the coordinator computes the assignment (KIP-848),
  and the migration of groups between both protocols;
- `offsets/`: commits, with and without transactions, fetches, deletion, expiry;
- `records`: the records that are written; `listing`: ListGroups, DescribeGroups and DeleteGroups.

Sources: KIP-62, KIP-134, KIP-345, KIP-394, KIP-496, KIP-559, KIP-814, KIP-848, KIP-1043 and
Apache Kafka's `GroupMetadataManager` and `OffsetMetadataManager`.
"""
