"""Classic groups: members agree on a protocol, and the group leader computes the assignment.

A group moves between these states:

    from                 to                   when
    -------------------  -------------------  -------------------------------------------------
    Empty                PreparingRebalance   the first member joins
    PreparingRebalance   CompletingRebalance  all members have joined, or the rebalance timeout
                                              (if the group was empty: the initial delay) has
                                              passed
    PreparingRebalance   Empty                no members are left
    CompletingRebalance  Stable               the leader's assignment is stored in the log
    CompletingRebalance  PreparingRebalance   a member joins, changes its protocols, leaves, or is
                                              removed, or the assignment cannot be stored
    Stable               PreparingRebalance   a member joins, changes its protocols, leaves, or is
                                              removed, or the leader joins again
    any                  Dead                 another broker becomes the coordinator

- `group`: the state of a group, and `member`: the state of a member;
- `rebalance`: the transitions between the states;
- `join`: JoinGroup, `sync`: SyncGroup, `presence`: Heartbeat and LeaveGroup.

A membership change alone is not written to the log. A record with all members is written when the
leader's assignment is stored, and when a static member gets a new member id. So the next
coordinator has the members of the last generation. A record without members is written when the
group is created or becomes empty.

Sources: KIP-62 (rebalance timeout), KIP-345 (static members), KIP-394 (member id for the second
JoinGroup), KIP-559 (protocol type and name in responses), KIP-814 (static leader that returns).
"""
