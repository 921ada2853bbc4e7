"""The offset map tells which record is the last one of its key in the dirty part of a log.

There are two implementations with the same results. `DictOffsetMap` is faster in interpreted code,
and `OffsetTable` is faster in compiled code. Both limit an estimate of their memory
(`log.cleaner.dedupe.buffer.size`). When a map is full, the round of cleaning ends at the last
offset in the map. The next round continues after this offset.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

from odradek.records.batch import RecordBatch

KEY_SIZE_MAX: Final = 32
_DIGEST_SIZE: Final = KEY_SIZE_MAX + 1


def digest(key: bytes) -> bytes:
    """Return the digest that replaces a key of more than `KEY_SIZE_MAX` bytes.

    A digest is longer than `KEY_SIZE_MAX` bytes, so that a short key never equals a digest.
    """
    return blake2b(key, digest_size=_DIGEST_SIZE).digest()


class Survivors(NamedTuple):
    """The records of a batch that are kept."""

    spans: list[tuple[int, int]]
    """Start and end position of each record."""
    have_tombstone: bool
    """Whether one of the records is a tombstone."""


class OffsetMap:
    """The interface of the offset map.

    Call `add_batch` for the batches of the dirty part. Then call `finish` once. Then call
    `has_survivors` and `survivors` for the batches of the whole log.
    """

    def __init__(self, first_dirty_offset: int) -> None:
        """Records before `first_dirty_offset` are not added."""
        self.first_dirty_offset = first_dirty_offset
        self.latest_offset = -1
        """All dirty records with a key up to this offset are in the map, except aborted ones."""

    def advance_to(self, offset: int) -> None:
        """Set `latest_offset`, unless it is before the first dirty offset."""
        if offset >= self.first_dirty_offset:
            self.latest_offset = offset

    def leave_out(self, batch: RecordBatch) -> None:
        """Skip a batch of an aborted transaction: its keys are not added."""
        self.advance_to(batch.last_offset)

    @property
    def utilization(self) -> float:
        """The used fraction of the map, from 0 to 1."""
        raise NotImplementedError

    def add_batch(self, batch: RecordBatch, payload: bytes) -> bool:
        """Add the keys of a batch. Return False if the map is full before the end of the batch.

        Raises:
            DamagedFile: `payload` does not hold the records of the batch.
        """
        raise NotImplementedError

    def finish(self) -> None:
        """Prepare the map for `has_survivors` and `survivors`."""
        raise NotImplementedError

    def has_survivors(self, batch: RecordBatch) -> bool:
        """Return False if the map can tell, without reading the records, that no record is kept."""
        raise NotImplementedError

    def survivors(self, batch: RecordBatch, payload: bytes, drop_tombstones: bool) -> Survivors:
        """Return the records that are kept.

        These are the last record of each key, and all records after `latest_offset`. With
        `drop_tombstones`, tombstones up to `latest_offset` are not kept.

        Raises:
            DamagedFile: `payload` does not hold the records of the batch.
        """
        raise NotImplementedError
