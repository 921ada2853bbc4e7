"""The quorum that orders the metadata log (KRaft): its leader, and its committed end.

`RaftMachine` (`machine`) processes events and returns effects (`events`). It reads the log through
a `LogView` (`log_view`): offsets, epochs and the voters. It never reads records.

- `quorum`: the role of this replica and its transitions. `roles` and `leader` define the roles.
- `voting`, `serving`, `fetching`, `reconfiguration`: elections, the two sides of replication, and
  changes of the voters.
- `connections` and `outbox`: requests in flight, and messages that wait for the disk.
- `messages`: the requests and responses, without their encoding.
- `voters` counts majorities; `election` is the state that a voter must keep across restarts.

The terms are those of `org.apache.kafka.raft`.
"""
