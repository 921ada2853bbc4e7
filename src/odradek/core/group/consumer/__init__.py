"""Consumer groups (KIP-848): the coordinator assigns, members follow at their own pace.

A member's heartbeat does four things, in this order:

1. it says what the member wants; if that is new, the group epoch grows (`heartbeat`, `joining`);
2. if the group epoch is ahead of the target assignment, an assignor computes a new target, at
   most once per assignment interval (`target`, `assignors/`);
3. the member takes the next step from what it has to its target (`reconcile`):

       Stable ──> UnrevokedPartitions: it has to give up some first, and stays in its epoch
          ^                │ it owns them no more
          │                v
          └───── UnreleasedPartitions: it has reached the epoch, others still hold some of its

4. it hears its epoch, and its assignment if that has changed.

No partition has two owners: each is known by the epoch in which its owner holds it, and is given
on only when that owner has said that it is gone. Members that do not follow in time are fenced
(`leaving`).

`patterns` and `regex/` are about members that subscribe by regular expression; `migration` and
`classic_members` about groups on the way between this protocol and the classic one, with members
of both kinds. All state is in `group`, and changes by `replay` only.
"""
