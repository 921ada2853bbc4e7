"""The start offset of each leader epoch in a log (`LeaderEpochFileCache` in Apache Kafka).

A follower, or a consumer that checks for truncation, asks for the end offset of an epoch. Two logs
may differ from this offset on. Epochs and start offsets increase.

The checkpoint file is written when the log is flushed. If a crash loses entries, recovery finds
them in the batches after the recovery point. An epoch that has no record yet is not written.
Therefore the election of ten thousand leaders writes no file. (Kafka writes such an epoch at once,
but removes it when it loads the log.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("_is_dirty", "_written", "epochs", "latest", "start_offsets")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.epochs: list[int] = []
        self.start_offsets: list[int] = []
        self.latest = UNDEFINED_EPOCH
        """The latest epoch; -1 if there is none."""
        for epoch, start_offset in entries or ():
            self.assign(epoch, start_offset)
        self._written: tuple[tuple[int, int], ...] | None = tuple(self.entries)
        """The entries in the checkpoint file; None if unknown."""
        self._is_dirty = False
        """Whether the entries may differ from the entries in the file."""

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Pairs of epoch and start offset, oldest first."""
        return list(zip(self.epochs, self.start_offsets, strict=True))

    def to_write(self, end_offset: int) -> tuple[tuple[int, int], ...] | None:
        """Return the entries for the checkpoint file; None if the file is up to date.

        `end_offset` is the log end offset. Epochs that begin at this offset are left out.
        """
        if not self._is_dirty:
            return None
        entries = tuple(entry for entry in self.entries if entry[1] < end_offset)
        self._is_dirty = len(entries) < len(self.epochs) or entries != self._written
        return None if entries == self._written else entries

    def on_written(self, entries: tuple[tuple[int, int], ...]) -> None:
        """Record that the checkpoint file has these entries, or will have them after a flush."""
        self._written = entries

    def on_lost(self) -> None:
        """Record that the content of the checkpoint file is unknown."""
        self._written = None
        self._is_dirty = True

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begin an epoch, unless it is the latest epoch already. Remove contradicting entries."""
        assert epoch >= 0
        assert start_offset >= 0
        epochs, offsets = self.epochs, self.start_offsets
        if epochs and epochs[-1] == epoch and start_offset >= offsets[-1]:
            return
        while epochs and (epochs[-1] >= epoch or offsets[-1] >= start_offset):
            epochs.pop()
            offsets.pop()
        epochs.append(epoch)
        offsets.append(start_offset)
        self.latest = epoch
        self._is_dirty = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch that is not above `epoch`, and its end offset.

        If `epoch` is below all known epochs, return `epoch` and the start offset of the first one.
        Return (-1, -1) if no epoch is known, or if `epoch` is -1 or above the latest epoch.
        """
        if epoch == UNDEFINED_EPOCH or not self.epochs or epoch > self.epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self.epochs, epoch)
        found = self.epochs[higher - 1] if higher else epoch
        return found, self.start_offsets[higher]

    def epoch_for(self, offset: int) -> int:
        """Return the epoch of the record at `offset`; -1 if it is before the first known epoch."""
        found = bisect_right(self.start_offsets, offset)
        return self.epochs[found - 1] if found else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that begin at or above `end_offset`, the new end of the log."""
        assert end_offset >= 0, "an offset"
        kept = bisect_left(self.start_offsets, end_offset)
        if kept < len(self.epochs):
            del self.epochs[kept:]
            del self.start_offsets[kept:]
            self.latest = self.epochs[-1] if self.epochs else UNDEFINED_EPOCH
            self._is_dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end at or below `start_offset`, the new start of the log.

        The epoch that contains `start_offset` then begins at `start_offset`.
        """
        passed = bisect_right(self.start_offsets, start_offset)
        if passed and (passed > 1 or self.start_offsets[0] != start_offset):
            del self.epochs[: passed - 1]
            del self.start_offsets[: passed - 1]
            self.start_offsets[0] = start_offset
            self._is_dirty = True

    def clear(self) -> None:
        """Remove all epochs."""
        self._is_dirty = True
        self.latest = UNDEFINED_EPOCH
        self.epochs.clear()
        self.start_offsets.clear()
