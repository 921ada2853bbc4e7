"""The state that a voter must keep across restarts, so that an epoch never has two leaders."""

from __future__ import annotations

from typing import NamedTuple

from odradek.core.raft.voters import ReplicaKey

NO_LEADER = -1


class ElectionState(NamedTuple):
    """The epoch, its leader if known, and the vote of this replica in it."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None
