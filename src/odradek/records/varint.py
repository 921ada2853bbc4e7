"""Variable-length integers with zigzag encoding, as records use them (`ByteUtils` in Kafka).

A varint holds 32 bits in at most five bytes. A varlong holds 64 bits in at most ten bytes. The last
byte may have bits that do not fit. They are ignored, as in Kafka.

The type `i64` makes compiled code faster. In interpreted code, the same values are Python integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.records.errors import InvalidRecords

if TYPE_CHECKING:
    from mypy_extensions import i64

VARLONG_SIZE_MAX: Final = 10

LAST_SHIFT: Final = 28
"""The fifth byte of a varint holds the bits from bit 28 on."""
LAST_SHIFT_LONG: Final = 63
"""The tenth byte of a varlong holds bit 63."""
_INT64_MAX: Final = 2**63 - 1


def read_varint(data: bytes, position: i64) -> tuple[i64, i64]:
    """Read a signed 32-bit number; return it and the position after it.

    Raises:
        InvalidRecords: the number is longer than five bytes.
        IndexError: `data` ends within the number.
    """
    byte: i64 = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = read_unsigned(data, position, LAST_SHIFT)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(data: bytes, position: i64) -> tuple[i64, i64]:
    """Read a signed 64-bit number; return it and the position after it.

    Raises:
        InvalidRecords: the number is longer than ten bytes.
        IndexError: `data` ends within the number.
    """
    byte: i64 = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, position = read_unsigned(data, position, LAST_SHIFT_LONG)
    return ((value >> 1) & _INT64_MAX) ^ -(value & 1), position


def read_unsigned(data: bytes, position: i64, last_shift: i64) -> tuple[i64, i64]:
    """Read a number without zigzag decoding; `last_shift` is 28 for 32 bits and 63 for 64 bits.

    Raises:
        InvalidRecords: the number is longer than five bytes, or ten bytes for 64 bits.
        IndexError: `data` ends within the number.
    """
    value: i64 = 0
    shift: i64 = 0
    while shift < last_shift:
        byte: i64 = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    last: i64 = data[position]
    if last > 0x7F:
        raise InvalidRecords(f"a number is longer than {last_shift // 7 + 1} bytes")
    bits: i64 = 0x0F if last_shift == LAST_SHIFT else 0x01
    return value | (last & bits) << last_shift, position + 1


def append_varint(out: bytearray, value: int) -> None:
    """Append a signed number of at most 64 bits."""
    out += varint(value)


def varint(value: int) -> bytes:
    """Return the encoding of a signed number of at most 64 bits."""
    if 0 <= value < len(_SMALL):
        return _SMALL[value]
    return _encoded(value)


def _encoded(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def size_of_varint(value: int) -> int:
    """Return the size of the result of `varint` in bytes."""
    bits = ((value << 1) ^ (value >> 63)).bit_length()
    return max(1, (bits + 6) // 7)


_SMALL: Final[tuple[bytes, ...]] = tuple(_encoded(value) for value in range(1024))
"""Precomputed varints of small numbers. Most lengths and deltas are small."""
