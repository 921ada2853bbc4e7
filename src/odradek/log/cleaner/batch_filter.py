"""Decides which records of a batch a round of cleaning keeps. The rules are Apache Kafka's rules.

- A record is kept if no later record in the offset map has the same key, or if the record is after
  the map's `latest_offset`.
- Records up to `latest_offset` without a key are removed.
- The first round that keeps a tombstone gives its batch a delete horizon. The delete horizon is the
  current time plus `delete.retention.ms`, and is stored in the batch's base timestamp. The
  tombstone is removed by a round after the delete horizon.
- Batches of aborted transactions are removed.
- If the log has no batches of a marker's transaction, the marker gets a delete horizon. The marker
  is removed by a round after the delete horizon.
- The last batch of each producer that has not expired is kept, because its sequence number and
  epoch are needed. If its records are removed, the batch is kept without records.
- The last batch below the high watermark is kept in the same way, because its last offset is needed.
  Every round has a last batch, too, but if all were kept, compacted logs would grow by an empty batch
  with each round (KAFKA-20452).
- A batch whose records are all kept is copied unchanged, unless it gets a delete horizon. Other
  batches keep their base offset, last offset, producer and epoch. Their remaining records are
  copied as bytes.

Sources: Apache Kafka's `Cleaner`, `MemoryRecords.filterTo`; KIP-98, KIP-534.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.log.cleaner.offset_map import OffsetMap, Survivors
from odradek.log.cleaner.transactions import Transactions
from odradek.log.cleaner.walk import fields_at, fields_of, survivors_of
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
"""Maximum size of the decompressed records of a batch, in bytes."""


class LastBatch(NamedTuple):
    """The last batch of a producer that has not expired."""

    last_offset: int
    """Last offset of the producer's last batch with records; -1 if only a marker is known."""
    epoch: int


class Kept(NamedTuple):
    """A batch to write."""

    data: Buffer
    last_offset: int
    max_timestamp: int


class BatchFilter:
    """Filters the batches of a log. Call `filter` for all batches from the start of the log on."""

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: Transactions,
        last_batches: dict[int, LastBatch],
        *,
        high_watermark: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """All offsets below `high_watermark` are committed."""
        self._offset_map = offset_map
        self._transactions = transactions
        self._last_batches = last_batches
        self._high_watermark = high_watermark
        self._now_ms = now_ms
        self._delete_horizon_ms = now_ms + delete_retention_ms
        self.records_read = 0
        self.records_kept = 0

    def filter(self, batch: RecordBatch) -> Kept | None:
        """Return the batch to write; None if it is removed.

        Raises:
            DamagedFile, RecordsError: the records of the batch do not match its header.
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
        if not batch.is_control and not self._offset_map.has_survivors(batch):
            return _emptied(batch) if self._must_stay(batch) else None
        payload: bytes
        if batch.attributes & CODEC_MASK:
            payload = decompress(batch.codec, batch.payload, PAYLOAD_MAX)
        else:
            payload = bytes(batch.payload)
        kept = self._survivors(batch, payload)
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

    def _must_stay(self, batch: RecordBatch) -> bool:
        """Return whether the batch must be written even without records."""
        if batch.next_offset == self._high_watermark:
            return True
        last = self._last_batches.get(batch.producer_id) if batch.has_producer_id else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return batch.last_offset == last.last_offset
        return batch.is_control and batch.producer_epoch == last.epoch

    def _survivors(self, batch: RecordBatch, payload: bytes) -> Survivors:
        if batch.is_control:
            return survivors_of(fields_of(batch, payload))
        horizon = batch.delete_horizon_ms
        drops_tombstones = horizon is not None and horizon <= self._now_ms
        return self._offset_map.survivors(batch, payload, drops_tombstones)


def _emptied(batch: RecordBatch) -> Kept:
    """Return the batch without its records. Producer, epoch, sequence and offsets remain."""
    flags = batch.attributes & ~CODEC_MASK & ~DELETE_HORIZON_FLAG
    data = _with_header(batch, b"", flags, NO_TIMESTAMP, batch.max_timestamp, 0)
    return Kept(data, batch.last_offset, batch.max_timestamp)


def _rebuilt(
    batch: RecordBatch, payload: bytes, spans: list[tuple[int, int]], horizon_ms: int | None
) -> Kept:
    """Return the batch with some of its records. Without `horizon_ms`, the horizon is unchanged."""
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
    """Return the records with timestamp deltas for another base timestamp."""
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
