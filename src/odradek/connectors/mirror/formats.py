"""The records of MirrorMaker 2's own topics, in the bytes of Java's classes.

    offset sync  key    topic string | partition int32
                 value  offset at the source int64 | offset at the target int64
    checkpoint   key    group string | topic string | partition int32
                 value  version int16 | offset at the source int64 | offset at the target int64 | metadata string
    heartbeat    key    alias of the source string | alias of the target string
                 value  version int16 | time int64

A string is its length as int16 and UTF-8. As in Java, bytes after the last field are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple

from odradek.core.connect.errors import DataError
from odradek.model.topic_partition import TopicPartition

VERSION = 0
"""The version of checkpoints and heartbeats."""
_STRING_BYTES_MAX = 32_767
_INT16, _INT32, _INT64, _TWO_INT64 = Struct(">h"), Struct(">i"), Struct(">q"), Struct(">qq")

Json = Mapping[str, Any]


class MalformedRecordError(DataError):
    """The bytes are not such a record."""


class _Reader:
    """Reads fields one after the other."""

    def __init__(self, data: bytes | None, what: str) -> None:
        if data is None:
            raise MalformedRecordError(f"{what} has no bytes")
        self._data = data
        self._position = 0
        self._what = what

    def _next(self, size: int) -> bytes:
        found = self._data[self._position : self._position + size]
        if len(found) < size:
            raise MalformedRecordError(f"{self._what} ends too early")
        self._position += size
        return found

    def number(self, form: Struct) -> int:
        """Read a number."""
        found: int = form.unpack(self._next(form.size))[0]
        return found

    def string(self) -> str:
        """Read a string."""
        size = self.number(_INT16)
        if size < 0:
            raise MalformedRecordError(f"{self._what} has a string of the length {size}")
        return self._next(size).decode("utf-8", "replace")

    def version(self) -> None:
        """Read the version, and check it."""
        found = self.number(_INT16)
        if found != VERSION:
            raise MalformedRecordError(f"{self._what} has the unknown version {found}")


def _string(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    if len(data) > _STRING_BYTES_MAX:
        raise DataError(f"a string of {len(data)} bytes is longer than {_STRING_BYTES_MAX}")
    return _INT16.pack(len(data)) + data


class OffsetSync(NamedTuple):
    """A record at the source, and the same record at the target."""

    partition: TopicPartition
    """The partition at the source."""
    upstream: int
    """The offset at the source."""
    downstream: int
    """The offset at the target."""

    def key(self) -> bytes:
        """Return the key of the record."""
        return _string(self.partition.topic) + _INT32.pack(self.partition.partition)

    def value(self) -> bytes:
        """Return the value of the record."""
        return _TWO_INT64.pack(self.upstream, self.downstream)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Return the offset sync of a record.

        Raises:
            MalformedRecordError: the record is not one.
        """
        named, numbers = _Reader(key, "the key of an offset sync"), _Reader(value, "an offset sync")
        place = TopicPartition(named.string(), named.number(_INT32))
        return cls(place, numbers.number(_INT64), numbers.number(_INT64))


class Checkpoint(NamedTuple):
    """The committed offset of a group, translated."""

    group: str
    partition: TopicPartition
    """The partition at the target."""
    upstream: int
    """The group's offset at the source."""
    downstream: int
    """The offset at the target where the group can go on."""
    metadata: str

    def key(self) -> bytes:
        """Return the key of the record."""
        topic, index = self.partition
        return _string(self.group) + _string(topic) + _INT32.pack(index)

    def value(self) -> bytes:
        """Return the value of the record."""
        numbers = _INT16.pack(VERSION) + _TWO_INT64.pack(self.upstream, self.downstream)
        return numbers + _string(self.metadata)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Return the checkpoint of a record.

        Raises:
            MalformedRecordError: the record is not one.
        """
        numbers, named = _Reader(value, "a checkpoint"), _Reader(key, "the key of a checkpoint")
        numbers.version()
        upstream, downstream = numbers.number(_INT64), numbers.number(_INT64)
        metadata = numbers.string()
        group = named.string()
        place = TopicPartition(named.string(), named.number(_INT32))
        return cls(group, place, upstream, downstream, metadata)

    def source_partition(self) -> dict[str, Any]:
        """Return the partition of the source, in the order of the bytes of Java."""
        topic, index = self.partition
        return {"partition": index, "topic": topic, "group": self.group}


class Heartbeat(NamedTuple):
    """A sign that records flow from one cluster to another. The time is in ms since 1970."""

    source: str
    target: str
    timestamp: int

    def key(self) -> bytes:
        """Return the key of the record."""
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        """Return the value of the record."""
        return _INT16.pack(VERSION) + _INT64.pack(self.timestamp)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        """Return the heartbeat of a record.

        Raises:
            MalformedRecordError: the record is not one.
        """
        number, named = _Reader(value, "a heartbeat"), _Reader(key, "the key of a heartbeat")
        number.version()
        timestamp = number.number(_INT64)
        return cls(named.string(), named.string(), timestamp)

    def source_partition(self) -> dict[str, Any]:
        """Return the partition of the source, in the order of the bytes of Java."""
        return {"sourceClusterAlias": self.source, "targetClusterAlias": self.target}


def source_partition(alias: str, topic: str, partition: int) -> dict[str, Any]:
    """Return the partition of the source of a copied record, in the order of the bytes of Java."""
    return {"cluster": alias, "partition": partition, "topic": topic}


def source_offset(offset: int) -> dict[str, int]:
    """Return the offset of the source of a copied record: the offset of the record itself."""
    return {"offset": offset}
