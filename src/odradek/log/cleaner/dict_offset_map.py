"""The offset map for interpreted code. It is a dict from a key to the last batch with this key.

A value of the dict is the base offset of the batch. All keys of a batch share one integer object.
This takes a third less memory than an offset for each key. In addition, all keys of a batch are
added in one call. If a batch has two records with the same key, the later record is kept.

Keys of up to 32 bytes are stored unchanged. A longer key is stored as a digest of 33 bytes.

A lookup in the dict of all keys misses the processor's caches. A lookup in the few keys of one
batch does not. Therefore `finish` inverts the dict once. Then each batch of the dirty part is
filtered by the set of keys whose last record the batch has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from odradek.log.cleaner.last_records import last_records
from odradek.log.cleaner.offset_map import _DIGEST_SIZE, OffsetMap, Survivors
from odradek.log.cleaner.walk import Fields, fields_of, survivors, survivors_of, walk
from odradek.records.batch import RecordBatch

_ENTRY_BYTES: Final = 48 + 16
"""Bytes of an entry: a slot of the growing dict (average), and an item in `_last_keys`."""
_OBJECT_BYTES: Final = 33
"""Size of a bytes object without its content."""
_INTEGER_BYTES: Final = 32
_ENTRY_BYTES_MAX: Final = _ENTRY_BYTES + _OBJECT_BYTES + _DIGEST_SIZE + _INTEGER_BYTES


class DictOffsetMap(OffsetMap):
    """The offset map for interpreted code.

    `entries_max` also limits the number of keys. It is used in tests, and to compare results with
    Apache Kafka, whose map limits the number of keys.
    """

    def __init__(
        self, first_dirty_offset: int, bytes_max: float, entries_max: int | None = None
    ) -> None:
        super().__init__(first_dirty_offset)
        self._bytes_max = bytes_max
        self._entries_max = 2**62 if entries_max is None else entries_max
        self._bytes = 0
        self._bases: dict[bytes, int] = {}
        """Key or digest -> base offset of the last batch with this key."""
        self._left_out: set[int] = set()
        """The base offsets of the batches of aborted transactions, whose keys are not here. If the second
        pass does not remove these batches, their records are looked up one by one."""
        self._last_keys: dict[int, list[bytes]] | None = None
        """Base offset of a batch -> the keys whose last record the batch has. Batches without such
        keys have no entry. None if there are so many batches that this dict would need much memory
        compared to the map."""

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

    def leave_out(self, batch: RecordBatch) -> None:
        """See `OffsetMap`."""
        super().leave_out(batch)
        self._left_out.add(batch.base_offset)

    def _add_all(self, keys: list[bytes], base_offset: int) -> bool:
        """Add the keys of a whole batch. If they may not fit, change nothing and return False."""
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
        """Add one key. If the map is full, change nothing and return False."""
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
        if batch.base_offset in self._left_out:
            return self._survivors_left_out(batch, payload, drop_tombstones)
        if batch.last_offset <= self.latest_offset:
            base_of = cast("Callable[[bytes | None], int | None]", self._bases.get)
            return survivors(payload, batch.count, base_of, batch.base_offset, drop_tombstones)
        return self._survivors_at_end(batch, payload, drop_tombstones)

    def _last_keys_of(self, batch: RecordBatch) -> Sequence[bytes] | None:
        """Return the keys whose last record is in the batch; None if each key must be looked up."""
        if (
            self._last_keys is None
            or batch.base_offset < self.first_dirty_offset
            or batch.last_offset > self.latest_offset
            or batch.base_offset in self._left_out
        ):
            return None
        return self._last_keys.get(batch.base_offset, ())

    def _survivors_left_out(
        self, batch: RecordBatch, payload: bytes, drop_tombstones: bool
    ) -> Survivors:
        """Return the records without a later record in the map, which has none of the batch."""
        return survivors_of(
            fields
            for fields in fields_of(batch, payload)
            if fields.key is not None
            and self._bases.get(fields.key, -1) < batch.base_offset
            and not (fields.is_tombstone and drop_tombstones)
        )

    def _survivors_at_end(
        self, batch: RecordBatch, payload: bytes, drop_tombstones: bool
    ) -> Survivors:
        """Return the survivors of a batch that has records after the map's `latest_offset`."""
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
