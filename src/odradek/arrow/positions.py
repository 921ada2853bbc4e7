"""Finds the positions of all fields of many records at once, with numpy.

No slice and no object is created per record. There are two steps:

1. Find the start of each record. The length of a record determines the start of the next record, so
   this step is sequential within a batch. If there are many batches, numpy finds the i-th record of
   all batches at once (lockstep). If there are few batches, a loop reads each batch; it is compiled in
   the wheel.
2. Read the fields. numpy reads one field of all records at once, then the next field.

A record (KIP-98, `org.apache.kafka.common.record.DefaultRecord`) has this layout. All lengths,
deltas and counts are zigzag varints.

    length | attributes (a byte) | timestamp delta | offset delta | key length | key
    | value length | value | header count | per header: key length | key | value length | value
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from odradek.arrow.batches import Buffer, Integers, Sections
from odradek.records.compiled import COMPILED
from odradek.records.errors import CorruptBatch
from odradek.records.starts import append_starts

Bytes = NDArray[np.uint8]

LOCKSTEP_WIDTH_MIN = 512 if COMPILED else 64
"""If fewer batches than this take part in a step on average, the loop is faster (measured)."""
VARINT_BITS_MAX = 63
"""The last byte of a varint starts at bit 63 or before."""
CONTINUED = 0x80
"""A byte of a varint below this is its last one."""
_SIGNED = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(CONTINUED)], np.int64)
"""The number that a varint of one byte stands for."""


class Fields(NamedTuple):
    """The fields of n records. Each array has n numbers. A length is -1 if the field is null."""

    timestamp_delta: Integers
    offset_delta: Integers
    key_start: Integers
    key_length: Integers
    value_start: Integers
    value_length: Integers
    headers_start: Integers
    """The position of the header count."""
    end: Integers


class Headers(NamedTuple):
    """The headers of n records. `counts` has n numbers. The other arrays have one per header."""

    counts: Integers
    key_start: Integers
    key_length: Integers
    value_start: Integers
    value_length: Integers


def record_starts(payload: Buffer, sections: Sections) -> Integers:
    """Return the position of each record, batch after batch.

    Raises:
        CorruptBatch: the record lengths do not add up to the end of the batch.
    """
    total, widest = int(sections.record_count.sum()), int(sections.record_count.max(initial=0))
    if total == 0:
        return np.empty(0, np.int64)
    if total >= widest * LOCKSTEP_WIDTH_MIN:
        return _starts_in_lockstep(np.frombuffer(payload, np.uint8), sections)
    starts: list[int] = []
    data, first = payload, 0
    if not isinstance(data, bytes):
        first = int(sections.start[0])
        data = bytes(data[first : int(sections.end[-1])])
    columns = (sections.start - first, sections.end - first, sections.record_count)
    for start, end, count in zip(*(column.tolist() for column in columns), strict=True):
        append_starts(data, start, end, count, starts)
    return np.array(starts, np.int64) + first


def _starts_in_lockstep(data: Bytes, sections: Sections) -> Integers:
    """Return what `append_starts` finds, for all batches at once. Step i finds record i of each batch."""
    order = np.argsort(-sections.record_count, kind="stable")  # batches with most records first
    count = sections.record_count[order]
    position, end = sections.start[order], sections.end[order]
    slot = (np.cumsum(sections.record_count) - sections.record_count)[order]
    starts = np.empty(int(count.sum()), np.int64)
    # still_open[i]: how many batches have a record i
    still_open = len(count) - np.searchsorted(count[::-1], np.arange(count[0]), side="right")
    for step, width in enumerate(still_open.tolist()):
        here = position[:width]
        starts[slot[:width] + step] = here
        length, after = varints(data, here)
        if (length < 0).any() or (length > end[:width] - after).any():
            raise CorruptBatch("a record ends after its batch")
        position[:width] = after + length
    if (position != end).any():
        raise CorruptBatch("the records of a batch do not end where it ends")
    return starts


def varints(data: Bytes, position: Integers) -> tuple[Integers, Integers]:
    """Return the zigzag varint at each position, and the position after it.

    Raises:
        CorruptBatch: a varint has more than ten bytes, or ends after the data.
    """
    try:
        first = data.take(position)
        after = position + 1
        if first.max(initial=0) < CONTINUED:  # most lengths of keys, and most deltas
            return _SIGNED.take(first), after
        is_longer = first >= CONTINUED
        second = data.take(np.minimum(after, len(data) - 1))
        if (second[is_longer] < CONTINUED).all() and after[is_longer].max() < len(data):
            value = first.astype(np.int64)
            value += (second.astype(np.int64) - 1 << 7) * is_longer
            return (value >> 1) ^ -(value & 1), after + is_longer
        return _long_varints(data, position)
    except IndexError:
        raise CorruptBatch("varint beyond the end of the records") from None


def _long_varints(data: Bytes, position: Integers) -> tuple[Integers, Integers]:
    """Return what `varints` returns.

    Raises:
        CorruptBatch: a varint has more than ten bytes.
        IndexError: it ends after the data.
    """
    byte = data[position]
    value = (byte & 0x7F).astype(np.uint64)
    after = position + 1
    longer = np.flatnonzero(byte >= CONTINUED)
    shift = 7
    while longer.size:
        if shift > VARINT_BITS_MAX:
            raise CorruptBatch("varint of more than ten bytes")
        byte = data[after[longer]]
        value[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[longer] += 1
        longer = longer[byte >= CONTINUED]
        shift += 7
    one = np.uint64(1)
    return ((value >> one) ^ (np.uint64(0) - (value & one))).view(np.int64), after


def fields(payload: Buffer, starts: Integers) -> Fields:
    """Return the positions of the fields of the records at `starts`.

    Raises:
        CorruptBatch: a field ends after its record.
    """
    data = np.frombuffer(payload, np.uint8)
    length, position = varints(data, starts)
    end = position + length
    timestamp_delta, position = varints(data, position + 1)
    offset_delta, position = varints(data, position)
    key_length, key_start = varints(data, position)
    position = _skip(key_start, key_length, end)
    value_length, value_start = varints(data, position)
    headers_start = _skip(value_start, value_length, end)
    if (headers_start >= end).any():
        raise CorruptBatch("a record without a header count")
    return Fields(
        timestamp_delta,
        offset_delta,
        key_start,
        key_length,
        value_start,
        value_length,
        headers_start,
        end,
    )


def _skip(start: Integers, length: Integers, end: Integers) -> Integers:
    """Return the positions after byte strings; a length of -1 means null."""
    if (length < -1).any() or (length > end - start).any():
        raise CorruptBatch("a field ends after its record")
    return start + np.maximum(length, 0)


def headers(payload: Buffer, records: Fields) -> Headers:
    """Return the positions of headers. Step i reads header i of each record.

    Raises:
        CorruptBatch: the headers end after their record, or before its end.
    """
    data = np.frombuffer(payload, np.uint8)
    counts, position = varints(data, records.headers_start)
    if (counts < 0).any() or (counts > (records.end - position) // 2).any():
        raise CorruptBatch("the header count is larger than the record's size allows")
    first = np.cumsum(counts) - counts
    found = np.empty((4, int(counts.sum())), np.int64)
    open_records = np.flatnonzero(counts)
    step = 0
    while open_records.size:
        end = records.end[open_records]
        key_length, key_start = varints(data, position[open_records])
        if (key_length < 0).any():
            raise CorruptBatch("a header without a key")
        value_length, value_start = varints(data, _skip(key_start, key_length, end))
        found[:, first[open_records] + step] = (key_start, key_length, value_start, value_length)
        position[open_records] = _skip(value_start, value_length, end)
        step += 1
        open_records = open_records[counts[open_records] > step]
    if (position != records.end).any():
        raise CorruptBatch("a record's headers do not end where it ends")
    return Headers(counts, *found)
