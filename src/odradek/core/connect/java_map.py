"""The file of a standalone worker's offsets: a `HashMap` of byte arrays, as Java serializes it."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_MAGIC = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _ARRAY = 0x70, 0x71, 0x72, 0x73, 0x75
_BLOCK, _END = 0x77, 0x78
_HASH_MAP = (
    b"\x72\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02"
    b"F\x00\x0aloadFactorI\x00\x09threshold\x78\x70"
)
_BYTES = b"\x72\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00\x78\x70"
_BYTES_HANDLE = 0x7E0002
"""Handles: the class of the map, the map, the class of arrays of bytes."""


class MalformedMapError(ValueError):
    """The file is not a map of byte arrays."""


def dump(values: Mapping[bytes, bytes]) -> bytes:
    """Return the file."""
    capacity = 16
    while capacity * 3 // 4 < len(values):
        capacity *= 2
    parts = [
        _MAGIC,
        bytes([_OBJECT]),
        _HASH_MAP,
        struct.pack(">fI", 0.75, capacity * 3 // 4),
        bytes([_BLOCK, 8]),
        struct.pack(">II", capacity, len(values)),
    ]
    is_first = True
    for pair in values.items():
        for each in pair:
            shape = _BYTES if is_first else struct.pack(">BI", _REFERENCE, _BYTES_HANDLE)
            parts.append(bytes([_ARRAY]) + shape + struct.pack(">I", len(each)) + each)
            is_first = False
    parts.append(bytes([_END]))
    return b"".join(parts)


def load(data: bytes) -> dict[bytes, bytes | None]:
    """Return keys and values of a file.

    Raises:
        MalformedMapError: it is something else.
    """
    if not data:
        return {}
    start = _MAGIC + bytes([_OBJECT]) + _HASH_MAP
    if not data.startswith(start):
        raise MalformedMapError("the file is not a HashMap")
    try:
        return _Reader(data, len(start)).read()
    except (struct.error, IndexError):
        raise MalformedMapError("the file is too short") from None


class _Reader:
    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._at = position
        self._arrays: list[bytes | None] = []
        """What the handles from `_BYTES_HANDLE` on stand for; the first is the class."""

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _int(self) -> int:
        (number,) = struct.unpack_from(">I", self._data, self._at)
        self._at += 4
        return int(number)

    def read(self) -> dict[bytes, bytes | None]:
        self._at += 8
        if (self._byte(), self._byte()) != (_BLOCK, 8):
            raise MalformedMapError("the size of the map is missing")
        self._int()
        count = self._int()
        found: dict[bytes, bytes | None] = {}
        for _ in range(count):
            key = self._array()
            value = self._array()
            if key is not None:
                found[key] = value
        return found

    def _array(self) -> bytes | None:
        kind = self._byte()
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            index = self._int() - _BYTES_HANDLE
            if not 0 < index < len(self._arrays):
                raise MalformedMapError("a reference is not to an array")
            return self._arrays[index]
        if kind != _ARRAY:
            raise MalformedMapError(f"an array of bytes is expected, not type {kind:#x}")
        if self._data[self._at] == _CLASS:
            if not self._data.startswith(_BYTES, self._at):
                raise MalformedMapError("an array is not one of bytes")
            self._at += len(_BYTES)
            self._arrays.append(None)
        elif (self._byte(), self._int()) != (_REFERENCE, _BYTES_HANDLE):
            raise MalformedMapError("an array is not one of bytes")
        length = self._int()
        if self._at + length > len(self._data):
            raise MalformedMapError("the file is too short")
        found = self._data[self._at : self._at + length]
        self._at += length
        self._arrays.append(found)
        return found
