"""A codec for the one Produce request that matters most: one batch, one partition.

Producers send most of their requests in this form, so it is read and answered here without an
object per field. Anything else (a transactional id, several topics or partitions, tagged
fields, long names) is None, and goes the general way. `tests/wire/test_single_produce.py` holds
both ways against each other.
"""

from __future__ import annotations

import struct

from odradek.wire.primitives import MalformedMessage, read_uvarint_tail

VERSION_MIN = 9
"""First flexible version."""
TOPIC_IDS_VERSION = 13

_request = struct.Struct(">hiB").unpack_from  # acks, timeout_ms, topics + 1
_partition = struct.Struct(">BiB").unpack_from  # partitions + 1, index, records + 1
_header = struct.Struct(">iixB").pack  # size, correlation id, no tags, topics + 1
_body = struct.Struct(">BihqqqBBBBix").pack
_BODY_SIZE = 40
_HEADER_SIZE = 6


def decode(
    frame: memoryview, position: int, version: int
) -> tuple[int, bytes, int, memoryview] | None:
    """Acks, the topic as it stands on the wire, the partition's index, and the records.

    `position` is that of the request's body. The topic is its id from version 13 on, before
    that its name behind its length. None for every other shape, and for what is malformed.
    """
    try:
        if frame[position]:
            return None  # transactional
        acks, _, topics = _request(frame, position + 1)
        position += 8
        size = 16 if version >= TOPIC_IDS_VERSION else frame[position]
        if topics != 2 or size > 127:
            return None
        topic = bytes(frame[position : position + size])
        position += size
        partitions, index, size = _partition(frame, position)
        if partitions != 2 or not size:
            return None
        position += 6
        if size > 127:
            size, position = read_uvarint_tail(frame, position, size)
        end = position + size - 1
        if end + 3 != len(frame) or frame[end] or frame[end + 1] or frame[end + 2]:
            return None
    except (IndexError, struct.error, MalformedMessage):
        return None
    return acks, topic, index, frame[position:end]


def encode_answer(
    correlation_id: int,
    topic: bytes,
    index: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """The whole response, with its size in front, for records that were appended."""
    size = _HEADER_SIZE + len(topic) + _BODY_SIZE
    return b"".join(
        (
            _header(size, correlation_id, 2),
            topic,
            # Partitions + 1, the partition, no record errors, no message, no tags of the
            # partition and of the topic, no throttling, no tags.
            _body(2, index, 0, base_offset, log_append_time_ms, log_start_offset, 1, 0, 0, 0, 0),
        )
    )
