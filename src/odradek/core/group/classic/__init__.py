"""Classic groups: members agree on a protocol, and the group leader computes the assignment.

              first member joins            all have joined, or time is up
    Empty ──────────────────> PreparingRebalance ──────────> CompletingRebalance
      ^                          │        ^  ^                    │      │
      └──── no members joined ───┘        │  └── member joins ────┘      │ the leader's assignment
                                          │      or leaves               v is stored
                                          └── member joins, leaves ──── Stable
    any ──> Dead: deleted, or coordinated elsewhere

`group` is the state, `rebalance` moves it from state to state; `join`, `sync` and `presence`
(heartbeats and departures) are the members' requests. Membership changes are not written to the
log. A record of the whole group is written when an assignment is stored, so that the next
coordinator knows the members of the last generation (KIP-62, KIP-345, KIP-394, KIP-559, KIP-814).
"""
