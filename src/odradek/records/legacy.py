"""Message formats 0 and 1, which data directories from before Kafka 0.11 may contain.

    offset int64 | size int32 | CRC-32 from here on uint32 | magic int8 | attributes int8
    | timestamp int64 (format 1 only) | key length int32 | key | value length int32 | value

The value of a compressed message is a sequence of inner messages. The offset of the compressed
message is the offset of the last inner message. The log finds and checks stored messages of these
formats, and sends them unchanged. Such messages from producers are rejected, as in Apache Kafka 4.
"""

from __future__ import annotations

import zlib
from struct import Struct

from odradek.records.batch import LOG_OVERHEAD, MAGIC_POSITION, Buffer
from odradek.records.errors import CorruptBatch

_HEADER = Struct(">qiIbb")
_TIMESTAMP = Struct(">q")
_TIMESTAMP_POSITION = 18
_CHECKED_POSITION = 16
SIZE_MIN = (26, 34)
"""Minimum size of a message of format 0 and of format 1, in bytes."""


class LegacyMessage:
    """A message of format 0 or 1. Fields that `RecordBatch` has too have the same names."""

    __slots__ = ("_data", "attributes", "crc", "last_offset", "magic", "max_timestamp", "size")

    last_offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    max_timestamp: int
    leader_epoch = -1
    producer_id = -1
    has_producer_id = False

    def __init__(self, data: Buffer) -> None:
        """`data` begins with the whole message. More bytes may follow the message.

        Raises:
            CorruptBatch: `data` is too short, or has another format.
        """
        view = memoryview(data)
        if len(view) < SIZE_MIN[0]:
            raise CorruptBatch(f"a message has at least {SIZE_MIN[0]} bytes, not {len(view)}")
        self.last_offset, length, self.crc, self.magic, self.attributes = _HEADER.unpack_from(view)
        self.size = length + LOG_OVERHEAD
        if self.magic not in (0, 1):
            raise CorruptBatch(f"the message at offset {self.last_offset} has format {self.magic}")
        if not SIZE_MIN[self.magic] <= self.size <= len(view):
            raise CorruptBatch(
                f"the message at offset {self.last_offset} says that it has {self.size} bytes"
            )
        self._data = view[: self.size]
        self.max_timestamp = -1
        if self.magic == 1:
            self.max_timestamp = _TIMESTAMP.unpack_from(view, _TIMESTAMP_POSITION)[0]

    @property
    def base_offset(self) -> int:
        """The message's offset. The first inner offset is known only after decompression."""
        return self.last_offset

    @property
    def next_offset(self) -> int:
        """The offset after the message."""
        return self.last_offset + 1

    @property
    def is_valid(self) -> bool:
        """Whether the checksum is correct."""
        return zlib.crc32(self._data[_CHECKED_POSITION:]) == self.crc


def is_legacy(data: Buffer, position: int = 0) -> bool:
    """Return whether a message of format 0 or 1 starts at `position`."""
    return data[position + MAGIC_POSITION] in (0, 1)
