"""Classic groups: the members agree on a protocol and elect a leader, the leader assigns.

              first member joins            all have joined, or time is up
    Empty ──────────────────> PreparingRebalance ──────────> CompletingRebalance
      ^                          │        ^  ^                    │      │
      └──── nobody joined ───────┘        │  └── someone joins ───┘      │ the leader's assignment
                                          │      or leaves               v is stored
                                          └── joins, leaves, is lost ── Stable
    any ──> Dead: deleted, or coordinated elsewhere

`group` is the state, `rebalance` drives it around the circle, `join`, `sync` and `presence`
(heartbeats and departures) are what members ask. Who is member changes outside of the log; a
record of the whole group is written when an assignment is stored, so that a coordinator that
takes over knows the members of the last generation (KIP-62, KIP-345, KIP-394, KIP-559,
KIP-814).
"""
