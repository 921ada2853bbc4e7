"""Measures how long commits and elections of the metadata quorum take, for metrics."""

from __future__ import annotations

from collections import deque

from odradek.core.raft.leader import Leader
from odradek.core.raft.roles import Candidate, Follower, Prospective
from odradek.telemetry.recent_times import RecentTimes


class QuorumTimes:
    """The times of one node, in ms."""

    def __init__(self) -> None:
        self.commits = RecentTimes()
        """From an append as leader to its commit."""
        self.elections = RecentTimes()
        """From the beginning of an election of this node to a known leader."""
        self._uncommitted: deque[tuple[int, int]] = deque()
        """The end offset and the time of each append as leader."""
        self._election_began_ms: int | None = None

    def on_appended(self, end_offset: int, now_ms: int) -> None:
        """Note an append as leader."""
        self._uncommitted.append((end_offset, now_ms))

    def on_committed(self, offset: int, now_ms: int) -> None:
        """Note that all records below `offset` are committed."""
        while self._uncommitted and self._uncommitted[0][0] <= offset:
            self.commits.record(now_ms - self._uncommitted.popleft()[1], now_ms)

    def on_new_epoch(self) -> None:
        """Note that another epoch has begun: earlier appends of this node may be lost."""
        self._uncommitted.clear()

    def on_role(self, role: object, now_ms: int) -> None:
        """Note the role of this node, changed or not."""
        if isinstance(role, Prospective | Candidate):
            if self._election_began_ms is None:
                self._election_began_ms = now_ms
        elif self._election_began_ms is not None and isinstance(role, Leader | Follower):
            self.elections.record(now_ms - self._election_began_ms, now_ms)
            self._election_began_ms = None
