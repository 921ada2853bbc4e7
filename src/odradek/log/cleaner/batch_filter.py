"""Decides which records of a batch a round of cleaning keeps: Apache Kafka's rules.

- A record is kept if it is the last of its key in the offset map, or is after the map's last
  offset. Records without a key are removed. A tombstone is removed once the delete horizon of its
  batch has passed.
- The first round that keeps a tombstone gives its batch the delete horizon: now plus
  `delete.retention.ms`, stored in the base timestamp.
- Batches of aborted transactions are removed. A marker whose transaction has no batches left gets a
  delete horizon, and is removed when that has passed.
- The last batch of each producer that has not expired is kept, if necessary without records: its
  sequence number and epoch are needed. The last batch of the round is kept for its offset.
- A batch whose records are all kept is copied unchanged. Others keep their base offset, last
  offset, producer and epoch; kept records are copied byte by byte.

Sources: Apache Kafka's `Cleaner`, `MemoryRecords.filterTo`; KIP-98, KIP-534.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from odradek.log.cleaner.last_records import last_records
from odradek.log.cleaner.offset_map import OffsetMap
from odradek.log.cleaner.transactions import Transactions
from odradek.log.cleaner.walk import Fields, Survivors, fields_at, survivors
from odradek.log.errors import DamagedFile
from odradek.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    RECORD_BATCH_HEADER,
    Buffer,
    RecordBatch,
)
from odradek.records.builder import seal
from odradek.records.compression import Codec, compress, decompress
from odradek.records.varint import append_varint, read_varlong, size_of_varint

PAYLOAD_MAX: Final = 256 << 20
"""Maximum bytes of one decompressed batch."""


class LastBatch(NamedTuple):
    """The last batch of a producer that has not expired."""

    last_offset: int
    """Offset of its last batch with records; -1 if only a marker is known."""
    epoch: int


class Kept(NamedTuple):
    """The batch as it is written."""

    data: Buffer
    last_offset: int
    max_timestamp: int


class BatchFilter:
    """Goes through all batches of a log from its start, in order."""

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: Transactions,
        last_batches: dict[int, LastBatch],
        *,
        first_dirty_offset: int,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """`end_offset`: the first offset that may not be cleaned."""
        self._first_dirty_offset = first_dirty_offset
        self._latest_offset = offset_map.latest_offset
        self._last_keys = offset_map.last_keys()
        self._base_of = offset_map.base_of
        self._transactions = transactions
        self._last_batches = last_batches
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._delete_horizon_ms = now_ms + delete_retention_ms
        self.records_read = 0
        self.records_kept = 0

    def filter(self, batch: RecordBatch) -> Kept | None:
        """Return the batch to write; None if it is removed.

        Raises:
            DamagedFile: the batch does not hold what its header says.
            RecordsError: the same.
        """
        if batch.is_control:
            is_needless = self._transactions.on_control(batch)
            horizon = batch.delete_horizon_ms
            discards = is_needless and horizon is not None and horizon <= self._now_ms
        else:
            is_needless = False
            discards = self._transactions.on_data(batch)
        if discards:
            return _emptied(batch) if self._must_stay(batch) else None
        self.records_read += batch.count
        last_keys = self._last_keys_of(batch)
        if last_keys is not None and not last_keys:
            return _emptied(batch) if self._must_stay(batch) else None
        payload: bytes
        if batch.attributes & CODEC_MASK:
            payload = decompress(batch.codec, batch.payload, PAYLOAD_MAX)
        else:
            payload = bytes(batch.payload)
        kept = self._survivors(batch, payload, last_keys)
        count = len(kept.spans)
        if not count:
            return _emptied(batch) if self._must_stay(batch) else None
        self.records_kept += count
        needs_horizon = kept.have_tombstone or is_needless
        if needs_horizon and not batch.attributes & DELETE_HORIZON_FLAG:
            return _rebuilt(batch, payload, kept.spans, self._delete_horizon_ms)
        if count == batch.count:
            return Kept(batch.data, batch.last_offset, batch.max_timestamp)
        return _rebuilt(batch, payload, kept.spans, None)

    def _last_keys_of(self, batch: RecordBatch) -> Sequence[bytes] | None:
        """The keys whose last record is in the batch; None if each key must be looked up in the
        map."""
        if (
            self._last_keys is None
            or batch.is_control
            or batch.base_offset < self._first_dirty_offset
            or batch.last_offset > self._latest_offset
        ):
            return None
        return self._last_keys.get(batch.base_offset, ())

    def _must_stay(self, batch: RecordBatch) -> bool:
        """Whether the batch is written even without records."""
        if batch.next_offset == self._end_offset:
            return True
        last = self._last_batches.get(batch.producer_id) if batch.has_producer_id else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return batch.last_offset == last.last_offset
        return batch.is_control and batch.producer_epoch == last.epoch

    def _survivors(
        self, batch: RecordBatch, payload: bytes, last_keys: Sequence[bytes] | None
    ) -> Survivors:
        if batch.is_control:
            return _survivors_of(_fields(batch, payload))
        horizon = batch.delete_horizon_ms
        drops_tombstones = horizon is not None and horizon <= self._now_ms
        if last_keys is not None:
            return last_records(payload, batch.count, last_keys, drops_tombstones)
        if batch.last_offset <= self._latest_offset:
            return survivors(
                payload, batch.count, self._base_of, batch.base_offset, drops_tombstones
            )
        return self._survivors_at_end(batch, payload, drops_tombstones)

    def _survivors_at_end(
        self, batch: RecordBatch, payload: bytes, drops_tombstones: bool
    ) -> Survivors:
        """Survivors of a batch that is, at least in part, after the map's last offset."""
        latest: dict[bytes, int] = {}
        kept: dict[int, Fields] = {}
        for fields in _fields(batch, payload):
            offset = batch.base_offset + fields.offset_delta
            if offset > self._latest_offset:
                kept[offset] = fields
                continue
            found = None if fields.key is None else self._base_of(fields.key)
            if fields.key is None or (found is not None and found > batch.base_offset):
                continue
            if found is not None:
                kept.pop(latest.get(fields.key, -1), None)
                latest[fields.key] = offset
            if not (fields.is_tombstone and drops_tombstones):
                kept[offset] = fields
        return _survivors_of(kept.values())


def _fields(batch: RecordBatch, payload: bytes) -> list[Fields]:
    found = []
    position = 0
    for _ in range(batch.count):
        fields = fields_at(payload, position)
        found.append(fields)
        position = fields.end
    if position != len(payload):
        raise DamagedFile(f"a batch does not end where its {batch.count} records end")
    return found


def _survivors_of(kept: Iterable[Fields]) -> Survivors:
    fields = list(kept)
    return Survivors(
        [(each.start, each.end) for each in fields], any(each.is_tombstone for each in fields)
    )


def _emptied(batch: RecordBatch) -> Kept:
    """The batch without its records: producer, epoch, sequence and offsets remain."""
    flags = batch.attributes & ~CODEC_MASK & ~DELETE_HORIZON_FLAG
    data = _with_header(batch, b"", flags, NO_TIMESTAMP, batch.max_timestamp, 0)
    return Kept(data, batch.last_offset, batch.max_timestamp)


def _rebuilt(
    batch: RecordBatch, payload: bytes, spans: list[tuple[int, int]], horizon_ms: int | None
) -> Kept:
    """The batch with some of its records, with a new or the old delete horizon."""
    shared = batch.max_timestamp if batch.is_log_append_time else None
    attributes = batch.attributes
    base_timestamp = batch.base_timestamp
    records: bytes | bytearray
    if horizon_ms is None:
        records = b"".join([payload[start:end] for start, end in spans])
    else:
        records = _with_base_timestamp(batch, payload, spans, horizon_ms)
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = horizon_ms
    max_timestamp = batch.max_timestamp
    if shared is None and len(spans) < batch.count:
        max_timestamp = batch.base_timestamp + max(
            _timestamp_delta(payload, start) for start, _ in spans
        )
    compressed = compress(Codec(batch.codec), records)
    data = _with_header(batch, compressed, attributes, base_timestamp, max_timestamp, len(spans))
    return Kept(data, batch.last_offset, max_timestamp)


def _timestamp_delta(payload: bytes, start: int) -> int:
    while payload[start] > 0x7F:
        start += 1
    return read_varlong(payload, start + 2)[0]


def _with_base_timestamp(
    batch: RecordBatch, payload: bytes, spans: list[tuple[int, int]], base_timestamp: int
) -> bytearray:
    """The records with timestamps relative to another base timestamp."""
    shared = batch.max_timestamp if batch.is_log_append_time else None
    out = bytearray()
    for start, _ in spans:
        fields = fields_at(payload, start)
        timestamp = batch.base_timestamp + fields.timestamp_delta if shared is None else shared
        delta = timestamp - base_timestamp
        rest = payload[fields.after_timestamp : fields.end]
        append_varint(out, 1 + size_of_varint(delta) + len(rest))
        out.append(0)
        append_varint(out, delta)
        out += rest
    return out


def _with_header(
    batch: RecordBatch,
    payload: Buffer,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
) -> bytearray:
    data = bytearray(HEADER_SIZE)
    data += payload
    RECORD_BATCH_HEADER.pack_into(
        data,
        0,
        batch.base_offset,
        len(data) - LOG_OVERHEAD,
        batch.leader_epoch,
        MAGIC,
        0,
        attributes,
        batch.last_offset_delta,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    seal(data)
    return data
