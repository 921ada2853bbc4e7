"""Consumer groups (KIP-848): the coordinator assigns, and members follow at their own pace.

A member's heartbeat has four steps, in this order:

1. if it changes the member's subscription, the group epoch is bumped (`heartbeat`, `joining`);
2. if the group epoch is ahead of the target assignment, an assignor computes a new target, at
   most once per assignment interval (`targets`, `assignors/`);
3. the member takes the next step from its current assignment to its target (`reconcile`):

       Stable ──> UnrevokedPartitions: it must revoke some first, and stays in its epoch
          ^                │ it has revoked them
          │                v
          └───── UnreleasedPartitions: it is in the new epoch, others still own some of its target

4. the response has its epoch, and its assignment if that has changed.

No partition has two owners: the group remembers the epoch in which a member owns a partition, and
assigns it to another one only when the owner has reported that it is revoked. Members that do not
follow in time are fenced (`leaving`).

`patterns` and `regex/` serve members that subscribe by regular expression; `migration` and
`classic_members` serve groups that change between this protocol and the classic one, with members
of both kinds. All state is in `group`, and is changed by `replay` only.
"""
