"""A fast codec for Produce requests without a transaction, which most producers send.

Java's producer sends one request to a broker for all partitions that have a batch ready. This
module decodes such requests and encodes their responses without an object per field. For all
other requests, `decode` returns None, and the caller uses the generated codec. These are requests
with a transactional id, null records, tagged fields, long topic names, more than 126 topics, or
more than 126 partitions of a topic. `tests/wire/test_quick_produce.py` compares both codecs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from odradek.wire.primitives import MalformedMessage, read_uvarint_tail

VERSION_MIN: Final = 9
"""First flexible version."""
TOPIC_IDS_VERSION: Final = 13

TopicBatches = tuple[bytes, list[tuple[int, memoryview]]]
"""An encoded topic, and a list of partition index and records for each of its partitions."""

# Length of the transactional id (0 means null), acks, timeout, number of topics + 1.
_front: Final = struct.Struct(">BhiB").unpack_from
_partition: Final = struct.Struct(">iB").unpack_from  # index, size of the records + 1
_header: Final = struct.Struct(">iixB").pack  # size, correlation id, no tags, number of topics + 1
# Partition index, error code, base offset, log append time, log start offset, no record errors, no
# error message, no tags.
_answer: Final = struct.Struct(">ihqqqBBB").pack
_COUNTS: Final = [bytes((count + 1,)) for count in range(127)]
_NO_TAGS: Final = b"\0"
_HEADER_SIZE: Final = 11
_ANSWER_SIZE: Final = 33
_TAIL: Final = bytes(5)  # no throttling, no tags
_SINGLE: Final = _COUNTS[1]
_SINGLE_TAIL: Final = _NO_TAGS + _TAIL
_SINGLE_SIZE: Final = _HEADER_SIZE + 2 + _ANSWER_SIZE

Appended = tuple[int, int, int]
"""The result of an append: base offset, log append time, log start offset. The log append time is
-1 if the topic uses CreateTime, so that records keep the timestamps of the producer."""


def decode(
    frame: memoryview, position: int, version: int
) -> tuple[int, int, list[TopicBatches]] | None:
    """Return the acks, the timeout in ms, and the topics with their records.

    `position` is the start of the request body. An encoded topic is the topic id from version 13
    on. In earlier versions it is the topic's name with a length prefix. Return None for requests
    that this codec does not support, and for malformed bytes.
    """
    has_ids = version >= TOPIC_IDS_VERSION
    found: list[TopicBatches] = []
    try:
        transactional, acks, timeout_ms, topics = _front(frame, position)
        if transactional or not 1 < topics < 128:
            return None
        position += 8
        for _ in range(topics - 1):
            end = position + (16 if has_ids else frame[position])
            topic = bytes(frame[position:end])
            partitions = frame[end]
            if not 1 < partitions < 128 or not 0 < len(topic) < 128:
                return None
            position = end + 1
            batches = []
            for _ in range(partitions - 1):
                index, size = _partition(frame, position)
                position += 5
                if size > 127:
                    byte = frame[position]
                    if byte < 128:
                        size = size & 127 | byte << 7
                        position += 1
                    elif frame[position + 1] < 128:
                        size = size & 127 | (byte & 127) << 7 | frame[position + 1] << 14
                        position += 2
                    else:
                        size, position = read_uvarint_tail(frame, position, size)
                end = position + size - 1
                if not size or frame[end]:
                    return None  # no records, or tags of the partition
                batches.append((index, frame[position:end]))
                position = end + 1
            if frame[position]:
                return None  # tags of the topic
            position += 1
            found.append((topic, batches))
        if frame[position] or position + 1 != len(frame):
            return None  # tags of the request, or bytes after it
    except (IndexError, struct.error, MalformedMessage):
        return None
    return acks, timeout_ms, found


def encode_answer(
    correlation_id: int, topics: Sequence[TopicBatches], appended: Sequence[Appended]
) -> bytes:
    """Encode the response for the case that all records were appended, with the size prefix.

    `appended` has the results in the order of the partitions in `topics`.
    """
    if len(appended) == 1:
        ((topic, ((index, _),)),) = topics
        base_offset, time_ms, start_offset = appended[0]
        return b"".join(
            (
                _header(_SINGLE_SIZE + len(topic), correlation_id, 2),
                topic,
                _SINGLE,
                _answer(index, 0, base_offset, time_ms, start_offset, 1, 0, 0),
                _SINGLE_TAIL,
            )
        )
    parts = [b""]
    size = _HEADER_SIZE
    number = 0
    for topic, batches in topics:
        size += len(topic) + 2 + len(batches) * _ANSWER_SIZE
        parts += topic, _COUNTS[len(batches)]
        for index, _ in batches:
            base_offset, time_ms, start_offset = appended[number]
            number += 1
            parts.append(_answer(index, 0, base_offset, time_ms, start_offset, 1, 0, 0))
        parts.append(_NO_TAGS)
    parts[0] = _header(size, correlation_id, len(topics) + 1)
    parts.append(_TAIL)
    return b"".join(parts)
