"""The keys of the uncompacted part of a log, and which records are the last ones of their keys.

There are two implementations with the same results, because what is fast interpreted is not what is
fast compiled: `DictOffsetMap` and `OffsetTable`. Both are bounded by an estimate of their memory
(`log.cleaner.dedupe.buffer.size`); when a map is full, the round of cleaning ends at that offset,
and the next round continues there.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

from odradek.records.batch import RecordBatch

KEY_SIZE_MAX: Final = 32
_DIGEST_SIZE: Final = KEY_SIZE_MAX + 1


def digest(key: bytes) -> bytes:
    """Return the digest that replaces a key of more than `KEY_SIZE_MAX` bytes.

    It is longer than such a key, so that a key never equals a digest.
    """
    return blake2b(key, digest_size=_DIGEST_SIZE).digest()


class Survivors(NamedTuple):
    """Start and end positions of the records of a batch that are kept."""

    spans: list[tuple[int, int]]
    have_tombstone: bool
    """Whether one of them has no value."""


class OffsetMap:
    """See the module. First all batches are added, then `finish` is called once, then the batches
    of the whole log are asked for."""

    def __init__(self, first_dirty_offset: int) -> None:
        """`first_dirty_offset`: records before it are not added."""
        self.first_dirty_offset = first_dirty_offset
        self.latest_offset = -1
        """All keyed records up to this offset are in the map, or aborted."""

    def advance_to(self, offset: int) -> None:
        """Set `latest_offset`, unless it is before the first dirty offset."""
        if offset >= self.first_dirty_offset:
            self.latest_offset = offset

    @property
    def utilization(self) -> float:
        """The used fraction of the map, from 0 to 1."""
        raise NotImplementedError

    def add_batch(self, batch: RecordBatch, payload: bytes) -> bool:
        """Add the keys of a batch, and advance to its end; return False if the map became full.

        Raises:
            DamagedFile: `payload` does not hold the records of the batch.
        """
        raise NotImplementedError

    def finish(self) -> None:
        """Prepare for the questions below."""
        raise NotImplementedError

    def has_survivors(self, batch: RecordBatch) -> bool:
        """Return False if it is known without the records that none of them is kept."""
        raise NotImplementedError

    def survivors(self, batch: RecordBatch, payload: bytes, drop_tombstones: bool) -> Survivors:
        """Find the records that are kept: the last of each key, and all after `latest_offset`.

        Raises:
            DamagedFile: `payload` does not hold the records of the batch.
        """
        raise NotImplementedError
