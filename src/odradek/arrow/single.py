"""Decodes a single batch, of which the header is decoded and the records are decompressed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from odradek.arrow.batches import Records, Sections
from odradek.arrow.columns import record_batch
from odradek.records.batch import RECORD_SIZE_MIN, RecordBatch
from odradek.records.errors import CorruptBatch


def single_batch(
    batch: RecordBatch,
    payload: bytes,
    topic: str,
    partition: int,
    offsets: range,
    *,
    include_headers: bool,
) -> pa.RecordBatch:
    """Return the records with an offset in `offsets` as columns.

    Raises:
        CorruptBatch: the records are inconsistent.
    """
    if batch.count * RECORD_SIZE_MIN > len(payload):
        raise CorruptBatch("the record count of a batch is larger than its size allows")
    timestamp = batch.max_timestamp if batch.is_log_append_time else batch.base_timestamp
    numbers = (0, len(payload), batch.count, batch.base_offset, timestamp)
    start, end, count, base_offset, base_time = (np.array([each], np.int64) for each in numbers)
    is_append_time = np.array([batch.is_log_append_time])
    sections = Sections(start, end, count, base_offset, base_time, is_append_time)
    return record_batch(Records(payload, sections), topic, partition, offsets, include_headers)
