"""The machine's view of the metadata log, and the comparison of two logs.

The machine reads these properties at any time and never changes the log. Appends and truncations
are effects. The owner of the machine performs them in order, and after that the view shows the new
log. The voters are part of the view, because the records of the log determine them.

Two logs that have the same last epoch before an offset are equal up to this offset (the log
matching property). So one pair of offset and epoch is enough to compare them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from odradek.core.raft.voters import VoterSet

STATIC_VERSION = 0
"""kraft.version 0: the voters are those of controller.quorum.voters."""
DYNAMIC_VERSION = 1
"""kraft.version 1: the voters are in the log (KIP-853)."""


class OffsetAndEpoch(NamedTuple):
    """The end of a log or of a snapshot: its end offset, and the epoch of the last record."""

    offset: int
    epoch: int


class LogView(Protocol):
    """The log of this node, as the machine reads it."""

    @property
    def start_offset(self) -> int:
        """The first offset in the log itself, not only in snapshots."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    @property
    def flushed_offset(self) -> int:
        """All records below this offset survive a crash."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the log can be appended to: no truncation or snapshot is being performed."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot if the log is empty; 0 if there is no
        snapshot."""
        ...

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The oldest snapshot."""
        ...

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot."""
        ...

    @property
    def voters(self) -> VoterSet:
        """The voters at the end of the log, committed or not."""
        ...

    @property
    def voters_offset(self) -> int:
        """The offset of the record with these voters; -1 if they are not from the log."""
        ...

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version at the end of the log."""
        ...

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch of the log that is not above `epoch`, and its end offset.

        If `epoch` is not known, the end of the log.
        """
        ...


class Diverging(NamedTuple):
    """The logs differ: the largest epoch that may be in both, and its end offset in this log."""

    end: OffsetAndEpoch


class NeedsSnapshot(NamedTuple):
    """The other log ends before this log begins; this snapshot has the missing records."""

    snapshot: OffsetAndEpoch


def compare(log: LogView, offset: int, epoch: int) -> Diverging | NeedsSnapshot | None:
    """Compare another log, which ends at `offset` in `epoch`, with this log.

    None means that the other log is equal to this log up to `offset`.
    """
    if log.start_offset == 0 and offset == 0 and epoch == 0:
        return None
    earliest, latest = log.earliest_snapshot, log.latest_snapshot
    if earliest is not None and latest is not None:
        is_before = offset < log.start_offset or epoch < earliest.epoch
        is_at_begin = offset == log.start_offset == earliest.offset
        if is_before or (is_at_begin and epoch != earliest.epoch):
            return NeedsSnapshot(latest)
    end = log.end_offset_for(epoch)
    if end.epoch != epoch or end.offset < offset:
        return Diverging(end)
    return None


def truncation_offset(log: LogView, leaders_end: OffsetAndEpoch) -> int:
    """The offset to which a log is truncated when the leader's response is `Diverging`."""
    if leaders_end.epoch == 0:
        return min(leaders_end.offset, log.end_offset)
    own_end = log.end_offset_for(leaders_end.epoch)
    if own_end.epoch == leaders_end.epoch:
        return min(own_end.offset, leaders_end.offset)
    return own_end.offset
