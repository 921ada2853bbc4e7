"""What happens to the quorum machine, and what it asks for in return.

Effects are performed in the order of their list. `PersistElection` comes first: it must have
reached the disk before anything after it is begun.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.core.raft.election import ElectionState


@dataclass(slots=True)
class Start:
    """The node has read its disk: the log ends at `end_offset`, in `epoch`."""

    end_offset: int
    epoch: int


@dataclass(slots=True)
class LogFlushed:
    """The own log is on disk up to `end_offset`, exclusive."""

    end_offset: int


@dataclass(slots=True)
class Resign:
    """The node is going to stop, or its disk failed: lead no longer."""


Event = Start | LogFlushed | Resign


@dataclass(slots=True)
class PersistElection:
    """Write the state to disk, durably."""

    election: ElectionState


@dataclass(slots=True)
class BecomeLeader:
    """Lead `epoch`: append its LeaderChange record; nothing else before it.

    `granting` are the ids of the voters that made this node leader.
    """

    epoch: int
    start_offset: int
    granting: tuple[int, ...]


@dataclass(slots=True)
class CommitUpTo:
    """The log is committed up to `offset`, exclusive; it only grows."""

    offset: int


@dataclass(slots=True)
class StopLeading:
    """This node leads no longer; what is not committed has an unknown end."""

    epoch: int


Effect = PersistElection | BecomeLeader | CommitUpTo | StopLeading
