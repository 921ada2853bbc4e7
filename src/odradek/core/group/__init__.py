"""The group coordinator's machine: who is in which group, what each member does, and offsets.

One `GroupMachine` (`machine`) holds the groups of one partition of `__consumer_offsets`. It is
put together from small parts that share a `GroupState` (`state`): the groups by id, clock,
timers, journal, settings.

- `classic/`: the protocol in which members elect a leader that assigns (JoinGroup, SyncGroup);
- `consumer/`: the protocol in which the coordinator assigns (KIP-848), and the way between both;
- `offsets/`: commits, with and without transactions, fetches, deletion, expiry;
- `records`: what is written, `listing`: ListGroups, DescribeGroups and DeleteGroups.

Sources: KIP-62, KIP-134, KIP-345, KIP-394, KIP-496, KIP-559, KIP-814, KIP-848, KIP-1043 and
Apache Kafka's `GroupMetadataManager` and `OffsetMetadataManager`.
"""
