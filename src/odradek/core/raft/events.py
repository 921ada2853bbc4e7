"""The events that the quorum machine takes, and the effects that it returns.

Effects are performed in the order of their list. `PersistElection` is begun in that order, but it
takes a sync of the disk, so the effects after it do not wait for it. Whatever may not happen
before the state is durable is returned in answer to `ElectionPersisted`.
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
class ElectionPersisted:
    """The state of a `PersistElection` is durable. States are written in order."""

    election: ElectionState


@dataclass(slots=True)
class LogFlushed:
    """This node's log is on disk up to `end_offset`, exclusive."""

    end_offset: int


@dataclass(slots=True)
class Resign:
    """The node is going to stop, or its disk failed: give up leadership."""


Event = Start | ElectionPersisted | LogFlushed | Resign


@dataclass(slots=True)
class PersistElection:
    """Write the state to disk durably; then report `ElectionPersisted`."""

    election: ElectionState


@dataclass(slots=True)
class BecomeLeader:
    """Lead `epoch`: append its LeaderChange record before any other record.

    `granting` are the ids of the voters that elected this node.
    """

    epoch: int
    start_offset: int
    granting: tuple[int, ...]


@dataclass(slots=True)
class CommitUpTo:
    """The log is committed up to `offset`, exclusive; it never decreases."""

    offset: int


@dataclass(slots=True)
class StopLeading:
    """This node is no longer the leader; records that are not committed may be lost."""

    epoch: int


Effect = PersistElection | BecomeLeader | CommitUpTo | StopLeading
