"""A fast codec for OffsetCommit requests with one topic, which most consumers send.

This module decodes such requests and encodes their responses without an object per field. For all
other requests, `decode` returns None, and the caller uses the generated codec. These are requests
with several topics, more than 126 partitions, metadata text, tagged fields or long names.
`tests/wire/test_single_offset_commit.py` compares both codecs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

VERSION_MIN: Final = 8
"""First flexible version."""
TOPIC_IDS_VERSION: Final = 10

PartitionCommit = tuple[int, int, int]
"""Partition, offset, leader epoch."""

_epoch: Final = struct.Struct(
    ">iB"
).unpack_from  # generation or member epoch, size of the member id + 1
# A `PartitionCommit`, size of the metadata text + 1 (0 means null), tags.
_partition: Final = struct.Struct(">iqiBB")
_header: Final = struct.Struct(
    ">iixiB"
).pack  # size, correlation id, no tags, throttling, topics + 1
_result: Final = struct.Struct(">ihx").pack  # partition, error code, no tags
_HEADER_SIZE: Final = 10
_RESULT_SIZE: Final = 7


def decode(
    frame: memoryview, position: int, version: int
) -> tuple[str, int, str, str | None, bytes, list[PartitionCommit]] | None:
    """Return group id, generation, member id, group instance id, encoded topic, and partitions.

    `position` is the start of the request body. The encoded topic is the topic id from version 10
    on. In earlier versions it is the topic's name with a length prefix. Return None for requests
    that this codec does not support, and for malformed bytes.
    """
    try:
        group_size = frame[position]
        end = position + group_size
        group_id = str(frame[position + 1 : end], "utf-8", "replace")
        epoch, member_size = _epoch(frame, end)
        position = end + 4
        end = position + member_size
        member_id = str(frame[position + 1 : end], "utf-8", "replace")
        position, instance_size, instance_id = end, frame[end], None
        end += instance_size or 1
        if instance_size:
            instance_id = str(frame[position + 1 : end], "utf-8", "replace")
        topics = frame[end]
        position = end + 1
        topic_size = 16 if version >= TOPIC_IDS_VERSION else frame[position]
        if (
            (group_size | member_size | instance_size | topic_size) > 127
            or not (group_size and member_size and topic_size)
            or topics != 2
        ):
            return None
        end = position + topic_size
        topic = bytes(frame[position:end])
        count = frame[end] - 1
        position = end + 1
        end = position + count * _partition.size
        if not 0 < count < 127 or end + 2 != len(frame) or frame[end] or frame[end + 1]:
            return None
    except (IndexError, struct.error):
        return None
    partitions = []
    for index, offset, leader_epoch, text_size, tags in _partition.iter_unpack(frame[position:end]):
        if text_size > 1 or tags:
            return None
        partitions.append((index, offset, leader_epoch))
    return group_id, epoch, member_id, instance_id, topic, partitions


def encode_answer(
    correlation_id: int, topic: bytes, partitions: Sequence[PartitionCommit]
) -> bytes:
    """Encode the response for the case that all offsets were stored, with the size prefix."""
    results = [_result(each[0], 0) for each in partitions]
    size = _HEADER_SIZE + len(topic) + 1 + len(results) * _RESULT_SIZE + 2
    return b"".join(
        (
            _header(size, correlation_id, 0, 2),
            topic,
            bytes((len(results) + 1,)),
            *results,
            b"\0\0",  # no tags of the topic, and none of the response
        )
    )
