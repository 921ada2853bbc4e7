"""Consumer groups (KIP-848): the coordinator computes assignments; members reconcile to them.

A member's heartbeat has four steps, in this order:

1. if it changes the member's subscription, the group epoch is bumped (`heartbeat`, `joining`);
2. if the group epoch is ahead of the target assignment, an assignor computes a new target, at
   most once per assignment interval (`targets`, `assignors/`);
3. the member's assignment moves one step from the current one to the target (`reconcile`):

       Stable ──> UnrevokedPartitions: it must revoke some first, and stays in its epoch
          ^                │ it has revoked them
          │                v
          └───── UnreleasedPartitions: it is in the new epoch, others still own some of its target

4. the response has the member epoch, and the assignment if it has changed.

No partition has two owners: the group remembers the epoch in which a member owns a partition, and
assigns it to another member only after the owner has reported its revocation. Members that do not
do this in time are fenced (`leaving`).

`patterns` and `regex/` serve members that subscribe by regular expression; `migration` and
`classic_members` serve groups that change between this protocol and the classic one, with members
of both kinds. All state is in `group`, and only `replay` changes it.
"""
