"""The origins of the batches that are appended to a log."""

from __future__ import annotations

from enum import Enum, auto


class AppendOrigin(Enum):
    """Where batches come from. This decides which checks are made (`AppendOrigin` in Kafka)."""

    CLIENT = auto()
    """The batches come from a producer. All checks are made."""
    COORDINATOR = auto()
    """The batches come from a coordinator of this broker. Records and sequence numbers are not
    checked."""
    REPLICATION = auto()
    """The batches come from the partition's leader, and are appended unchanged."""
    RAFT_LEADER = auto()
    """This controller appends to the metadata log. The batches have offsets and epochs already."""
