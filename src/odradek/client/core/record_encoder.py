"""Encodes records one after the other, as they stand in a batch of version 2.

Each record is appended as a few small byte strings, which are joined several records at a time. So a
record costs no object of its own, and its key and value are copied once.

The type `i64` makes compiled code faster. In interpreted code, the same values are Python integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from odradek.records.varint import varint

if TYPE_CHECKING:
    from mypy_extensions import i64

_PARTS_MAX: Final = 448
"""How many byte strings are joined at a time. Their memory then stays in the processor's cache."""
_BYTES: Final[list[bytes]] = [bytes((value,)) for value in range(256)]
_SHORT: Final[list[bytes]] = [varint(value) for value in range(1024)]
_NULL: Final = b"\x01"
"""The length of null, which is -1."""
_NO_HEADERS: Final = b"\0"
_START: Final = b"\0\0"
"""The attributes and a timestamp delta of 0."""


def size_of_varint(value: i64) -> i64:
    """Return the size of the varint of a number that is not negative."""
    if value < 64:
        return 1
    if value < 8192:
        return 2
    if value < 1048576:
        return 3
    if value < 134217728:
        return 4
    return 5


def encode_headers(headers: Iterable[Any]) -> bytes:
    """Return the number of headers and the headers, which are pairs of a name and a value.

    Raises:
        TypeError: a name is not a string, or a value is not bytes.
    """
    parts = []
    count = 0
    for name, content in headers:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is a string, not {type(name).__name__}")
        encoded = name.encode()
        parts += [varint(len(encoded)), encoded]
        if content is None:
            parts.append(_NULL)
        else:
            data = bytes_of(content, "the value of a header")
            parts += [varint(len(data)), data]
        count += 1
    return varint(count) + b"".join(parts)


def bytes_of(data: object, what: str) -> bytes:
    """Return bytes, and copy other buffers, which the caller may change.

    Raises:
        TypeError: `data` is no buffer.
    """
    if isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    hint = "; encode it first, for example with .encode()" if isinstance(data, str) else ""
    raise TypeError(f"{what} is bytes or None, not {type(data).__name__}{hint}")


class RecordEncoder:
    """Encodes the records of one batch."""

    def __init__(self, limit_bytes: i64, start: bytes = b"") -> None:
        """`limit_bytes` is the size that only the first record may exceed. `start` comes first."""
        self.count: i64 = 0
        """The number of records."""
        self.size: i64 = len(start)
        """The size of all in bytes."""
        self.base_timestamp: i64 = -1
        self.max_timestamp: i64 = -1
        self._limit_bytes: i64 = limit_bytes
        self._last_timestamp: i64 = -1
        self._time: bytes = _START
        self._parts: list[bytes] = [start]
        self._joined: bytearray = bytearray()

    def append(
        self, timestamp: i64, key: bytes | None, value: bytes | None, headers: bytes | None
    ) -> bool:
        """Add a record, with headers from `encode_headers`. Return False if it does not fit."""
        count: i64 = self.count
        time = self._time
        if timestamp != self._last_timestamp or count == 0:
            time = self._time_of(timestamp)
        key_size: i64 = 0
        size: i64 = len(time) + size_of_varint(count) + 3
        if key is not None:
            key_size = len(key)
            size += key_size + size_of_varint(key_size) - 1
        value_size: i64 = 0
        if value is not None:
            value_size = len(value)
            size += value_size + size_of_varint(value_size) - 1
        if headers is not None:
            size += len(headers) - 1
        total: i64 = self.size + size + size_of_varint(size)
        if count != 0 and total > self._limit_bytes:
            return False
        parts = self._parts
        put(parts, size)
        parts.append(time)
        put(parts, count)
        if key is None:
            parts.append(_NULL)
        else:
            put(parts, key_size)
            parts.append(key)
        if value is None:
            parts.append(_NULL)
        else:
            put(parts, value_size)
            parts.append(value)
        parts.append(_NO_HEADERS if headers is None else headers)
        if len(parts) > _PARTS_MAX:
            self._join()
        if count == 0:
            self.base_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self._last_timestamp = timestamp
        self._time = time
        self.size = total
        self.count = count + 1
        return True

    def _time_of(self, timestamp: i64) -> bytes:
        """Return the attributes and the timestamp delta of a record."""
        if self.count == 0 or timestamp == self.base_timestamp:
            return _START
        return b"\0" + varint(timestamp - self.base_timestamp)

    def _join(self) -> None:
        self._joined += b"".join(self._parts)
        self._parts.clear()

    def take(self) -> bytearray:
        """Return the encoded records. No record can be added afterwards."""
        self._join()
        data = self._joined
        self._joined = bytearray()
        return data


def put(parts: list[bytes], value: i64) -> None:
    """Append the varint of a number that is not negative."""
    if value < 1024:
        parts.append(_SHORT[value])
        return
    rest: i64 = value << 1
    while rest > 127:
        parts.append(_BYTES[rest & 127 | 128])
        rest >>= 7
    parts.append(_BYTES[rest])
