"""The offset map of interpreted Python: a dict from key to the last batch that has it.

The value is the base offset of the batch, one object for all keys of the batch: this takes a third
less memory than an offset for each key, and adds whole batches in one call. Of two records with the
same key in one batch, the later one is kept.

Keys of up to 32 bytes are stored unchanged, longer ones as a digest of 33 bytes.

A lookup in the map of all keys misses the processor's caches; a lookup in the few keys of one batch
does not. So the map is inverted once (`finish`), and each batch of the uncleaned part is filtered
by its own set of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from odradek.log.cleaner.last_records import last_records
from odradek.log.cleaner.offset_map import _DIGEST_SIZE, OffsetMap, Survivors
from odradek.log.cleaner.walk import Fields, fields_of, survivors, survivors_of, walk
from odradek.records.batch import RecordBatch

_ENTRY_BYTES: Final = 48 + 16
"""Bytes of an entry: a dict slot, averaged over its growth, and an item of a list of last keys."""
_OBJECT_BYTES: Final = 33
"""Size of a bytes object without its content."""
_INTEGER_BYTES: Final = 32
_ENTRY_BYTES_MAX: Final = _ENTRY_BYTES + _OBJECT_BYTES + _DIGEST_SIZE + _INTEGER_BYTES


class DictOffsetMap(OffsetMap):
    """See the module.

    `entries_max` bounds the number of keys as well; it is for tests, and for comparing with
    Apache Kafka, whose map is bounded that way.
    """

    def __init__(
        self, first_dirty_offset: int, bytes_max: float, entries_max: int | None = None
    ) -> None:
        super().__init__(first_dirty_offset)
        self._bytes_max = bytes_max
        self._entries_max = 2**62 if entries_max is None else entries_max
        self._bytes = 0
        self._bases: dict[bytes, int] = {}
        """Key or digest -> base offset of the last batch that has it."""
        self._last_keys: dict[int, list[bytes]] | None = None
        """Base offset of a batch -> the keys whose last record it has, without empty lists. None if
        there are so many batches that it would need much memory compared to the map."""

    @property
    def utilization(self) -> float:
        """See `OffsetMap`."""
        return min(1.0, self._bytes / self._bytes_max)

    def add_batch(self, batch: RecordBatch, payload: bytes) -> bool:
        """See `OffsetMap`."""
        walked = walk(payload, batch.count)
        if walked.null_keys:
            keys = [key for key in walked.keys if key is not None]
        else:
            keys = cast("list[bytes]", walked.keys)
        is_new = batch.base_offset >= self.first_dirty_offset
        if not is_new or not self._add_all(keys, batch.base_offset):
            for fields in fields_of(batch, payload):
                offset = batch.base_offset + fields.offset_delta
                if fields.key is not None and offset >= self.first_dirty_offset:
                    if not self._add(fields.key, batch.base_offset):
                        return False
                    self.advance_to(offset)
        self.advance_to(batch.last_offset)
        return True

    def _add_all(self, keys: list[bytes], base_offset: int) -> bool:
        """Add the keys of a whole batch; return False, and change nothing, if they may not fit."""
        count = len(self._bases)
        if (
            count + len(keys) > self._entries_max
            or self._bytes + len(keys) * _ENTRY_BYTES_MAX > self._bytes_max
        ):
            return False
        self._bases.update(dict.fromkeys(keys, base_offset))
        added = len(self._bases) - count
        if added:
            size = len(keys[0]) if added < len(keys) else sum(map(len, keys)) // added
            self._bytes += added * (size + _ENTRY_BYTES + _OBJECT_BYTES) + _INTEGER_BYTES
        return True

    def _add(self, key: bytes, base_offset: int) -> bool:
        """Add one key; return False, and change nothing, if the map is full."""
        if len(self._bases) >= self._entries_max or self._bytes >= self._bytes_max:
            return False
        if key not in self._bases:
            self._bytes += len(key) + _ENTRY_BYTES + _OBJECT_BYTES
        self._bases[key] = base_offset
        return True

    def finish(self) -> None:
        """See `OffsetMap`."""
        found: dict[int, list[bytes]] = {}
        batches_max = len(self._bases) // 8
        for key, base in self._bases.items():
            keys = found.get(base)
            if keys is not None:
                keys.append(key)
            elif len(found) < batches_max:
                found[base] = [key]
            else:
                return
        self._last_keys = found

    def has_survivors(self, batch: RecordBatch) -> bool:
        """See `OffsetMap`."""
        last_keys = self._last_keys_of(batch)
        return last_keys is None or len(last_keys) > 0

    def survivors(self, batch: RecordBatch, payload: bytes, drop_tombstones: bool) -> Survivors:
        """See `OffsetMap`."""
        last_keys = self._last_keys_of(batch)
        if last_keys is not None:
            return last_records(payload, batch.count, last_keys, drop_tombstones)
        if batch.last_offset <= self.latest_offset:
            base_of = cast("Callable[[bytes | None], int | None]", self._bases.get)
            return survivors(payload, batch.count, base_of, batch.base_offset, drop_tombstones)
        return self._survivors_at_end(batch, payload, drop_tombstones)

    def _last_keys_of(self, batch: RecordBatch) -> Sequence[bytes] | None:
        """The keys whose last record is in the batch; None if each key must be looked up."""
        if (
            self._last_keys is None
            or batch.base_offset < self.first_dirty_offset
            or batch.last_offset > self.latest_offset
        ):
            return None
        return self._last_keys.get(batch.base_offset, ())

    def _survivors_at_end(
        self, batch: RecordBatch, payload: bytes, drop_tombstones: bool
    ) -> Survivors:
        """Survivors of a batch that is, at least in part, after the map's last offset."""
        latest: dict[bytes, int] = {}
        kept: dict[int, Fields] = {}
        for fields in fields_of(batch, payload):
            offset = batch.base_offset + fields.offset_delta
            if offset > self.latest_offset:
                kept[offset] = fields
                continue
            found = None if fields.key is None else self._bases.get(fields.key)
            if fields.key is None or (found is not None and found > batch.base_offset):
                continue
            if found is not None:
                kept.pop(latest.get(fields.key, -1), None)
                latest[fields.key] = offset
            if not (fields.is_tombstone and drop_tombstones):
                kept[offset] = fields
        return survivors_of(kept.values())
