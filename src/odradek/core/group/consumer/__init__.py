"""Consumer groups (KIP-848): the coordinator computes the assignment of each member.

The coordinator processes a member's heartbeat in four steps:

1. If the heartbeat changes the member's subscription, the group epoch is increased by one
   (`heartbeat`, `joining`).
2. If the group epoch is higher than the epoch of the target assignment, an assignor computes a new
   target assignment, at most once per assignment interval (`targets`, `assignors/`).
3. The member's current assignment changes by one step towards its target assignment (`reconcile`).
4. The response has the member epoch. It also has the assignment if the assignment has changed, or
   if the request has all fields.

A member is in one of these states:

- Stable: the member has exactly the partitions of the target assignment of its epoch.
- UnrevokedPartitions: the member must revoke partitions before it can get others. It stays in its
  epoch until it has reported the revocation.
- UnreleasedPartitions: the member is in the epoch of the target assignment. Some partitions of its
  target assignment still belong to other members.

A partition never has two owners. The group stores the epoch in which a member owns a partition. The
partition is assigned to another member only after the owner has reported its revocation. Members
that do not revoke partitions in time are fenced (`progress`, `leaving`).

`patterns` and `regex/` resolve the regular expressions in subscriptions. `migration` converts
groups between this protocol and the classic protocol. `classic_members` processes requests of
members that use the classic protocol in a consumer group. The state of a group is in `group`, and
`replay` changes it.
"""
