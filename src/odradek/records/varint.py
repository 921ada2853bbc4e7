"""Variable-length integers with zigzag, as records have them."""

from __future__ import annotations

from odradek.records.errors import InvalidRecords

VARINT_SIZE_MAX = 5
VARLONG_SIZE_MAX = 10


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A signed 32- or 64-bit number and the position after it.

    Raises:
        InvalidRecords: longer than ten bytes.
        IndexError: `data` ends inside.
    """
    byte = data[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > 63:
            raise InvalidRecords("a number is longer than ten bytes")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), position


def append_varint(out: bytearray, value: int) -> None:
    """Add a signed number of at most 64 bits."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def varint(value: int) -> bytes:
    """The bytes of a signed number of at most 64 bits."""
    if 0 <= value < len(_SMALL):
        return _SMALL[value]
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


def size_of_varint(value: int) -> int:
    """How many bytes `append_varint` adds."""
    bits = ((value << 1) ^ (value >> 63)).bit_length()
    return max(1, (bits + 6) // 7)


_SMALL: tuple[bytes, ...] = ()
_SMALL = tuple(varint(value) for value in range(1024))
"""Most lengths and deltas are among these."""
