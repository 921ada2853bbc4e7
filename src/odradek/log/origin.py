"""Origins of appends."""

from __future__ import annotations

from enum import Enum, auto


class AppendOrigin(Enum):
    """Decides how much of a payload is checked (`AppendOrigin` in Apache Kafka)."""

    CLIENT = auto()
    """A producer: every check is made."""
    COORDINATOR = auto()
    """A coordinator of this broker: its batches are valid; producers' epochs are checked."""
    REPLICATION = auto()
    """The leader: its batches are appended unchanged."""
    RAFT_LEADER = auto()
    """The metadata log of this controller: offsets and epochs are in the batches already."""
