"""Share groups (KIP-932): the members of a group share the records of a partition.

A partition may be assigned to several members, and nothing must be revoked: a member gets its new
assignment with its next heartbeat. The leader of a partition decides which member gets which
records. So the assignment only decides which leaders a member fetches from.

The coordinator processes a member's heartbeat in these steps (`heartbeat`):

1. If the member's subscription has changed, or share partitions were initialized that are not
   assigned yet, the group epoch is increased by one.
2. If the group epoch is higher than the epoch of the target assignment, the assignor (`assignor`)
   computes a new target assignment, at most once per assignment interval (`targets`).
3. The member gets its target assignment.
4. If the group subscribes to partitions whose share state is not initialized, these partitions are
   recorded as initializing. When the record is committed, `odradek.broker.coordinator.share_groups`
   asks the share coordinator to initialize their state. Only initialized partitions are assigned.

`state_partitions` has the partitions whose share state is initializing, initialized, or being
deleted. `offsets` changes and deletes start offsets, and deletes the share state of a group. The
state of a group is in `group`, and `replay` changes it.

The model is Apache Kafka's `ShareGroup` and its part of `GroupMetadataManager`.
"""
