"""Functions that the generated codecs use, and the base class of messages.

Decoding treats all input as untrusted. Before memory is allocated for an array, its length is
compared with the number of remaining bytes. In the generated code, a truncated message causes an
`IndexError`, a `struct.error`, or a position after the end of the buffer. `Message.decode` raises
`MalformedMessage` in all three cases.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any, ClassVar, Self

from odradek.env.file_range import FileRange

Buffer = bytes | bytearray | memoryview
Records = Buffer | FileRange
"""Record batches, either in memory or as a range of a segment file."""

ARRAY_LENGTH_MAX = 1_000_000
"""Maximum number of elements of an array. Apache Kafka 4.4 has the same limit."""
TAGGED_FIELDS_MAX = 10_000

SHORT_ARRAY = 17
"""Arrays with fewer numbers than this are read and written by a precompiled Struct."""

ZERO_UUID = bytes(16)
UVARINTS = tuple(bytes((n,)) for n in range(128))


@functools.cache
def array_codecs(
    letter: str,
) -> tuple[tuple[Callable[..., bytes], ...], tuple[Callable[..., tuple[Any, ...]], ...]]:
    """Return `pack` functions and `unpack_from` functions for arrays of 0 to 16 numbers.

    `letter` is the struct format of a number. The index of a function is the number of numbers.
    """
    structs = [struct.Struct(f">{count}{letter}") for count in range(SHORT_ARRAY)]
    return tuple(each.pack for each in structs), tuple(each.unpack_from for each in structs)


class MalformedMessage(ValueError):
    """The bytes are not a message of the expected type and version."""


class UnsupportedField(ValueError):
    """A field has a value that the version cannot encode."""


def read_uvarint_tail(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint of more than one byte.

    `first` is the first byte, and `position` is the position after it. Return the value and the
    position after the varint.

    Raises:
        MalformedMessage: the varint has more than 32 bits.
    """
    value = first & 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise MalformedMessage("varint of more than 5 bytes")
    if value > 0xFFFFFFFF:
        raise MalformedMessage("varint of more than 32 bits")
    return value, position


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read the unsigned varint at `position`. Return its value and the position after it."""
    value = buffer[position]
    position += 1
    if value > 127:
        return read_uvarint_tail(buffer, position, value)
    return value, position


def write_uvarint(value: int) -> bytes:
    """Return the encoding of `value` as an unsigned varint."""
    if value < 128:
        return UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def check_count(count: int, element_size_min: int, buffer: Buffer, position: int) -> None:
    """Reject an array length that the rest of the buffer cannot hold.

    Raises:
        MalformedMessage: the length is negative, or above the limit, or the elements need more
            bytes than the buffer has.
    """
    if count < 0 or count * element_size_min > len(buffer) - position or count > ARRAY_LENGTH_MAX:
        raise MalformedMessage(f"array of {count} elements in {len(buffer) - position} bytes")


def null_field(name: str) -> MalformedMessage:
    """Return the error for a null in a non-nullable field."""
    return MalformedMessage(f"non-nullable field {name} was null")


def skip_tagged_fields(buffer: Buffer, position: int, first: int) -> int:
    """Skip the tagged fields of a struct that has none in this version.

    `first` is the first byte of the number of tagged fields, and is not zero. `position` is the
    position after this byte. Return the position after the tagged fields.
    """
    count = first
    if first > 127:
        count, position = read_uvarint_tail(buffer, position, first)
    check_tagged_count(count)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > len(buffer):
            raise MalformedMessage("tagged field past the end")
    return position


def check_tagged_count(count: int) -> None:
    """Raise `MalformedMessage` if a struct has more tagged fields than any schema defines."""
    if count > TAGGED_FIELDS_MAX:
        raise MalformedMessage(f"{count} tagged fields")


class Struct:
    """Base class of all generated classes. `__eq__` and `__repr__` use all fields."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, **values: Any) -> None:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, n) == getattr(other, n) for n in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{n}={getattr(self, n)!r}" for n in self.__slots__)
        return f"{type(self).__name__}({values})"


Decoder = Callable[[Buffer, int], tuple[Any, int]]
Encoder = Callable[[Any, Callable[[Any], object]], None]


class Message(Struct):
    """A message with the fields of all its versions, and a codec for each version.

    After decoding, a field that the version does not have is set to its default. All messages share
    the structs that are defaults of tagged fields. Do not change such a struct; assign a new struct
    to the field instead.
    """

    __slots__ = ()
    API_KEY: ClassVar[int | None]
    VERSION_MIN: ClassVar[int]
    VERSION_MAX: ClassVar[int]
    FLEXIBLE_MIN: ClassVar[int]
    """First flexible version; 32767 if there is none."""
    DECODERS: ClassVar[dict[int, Decoder]]
    """By version, a function of (buffer, position) that returns the message and its end."""
    ENCODERS: ClassVar[dict[int, Encoder]]
    """By version, a function of (message, append) that passes the encoded parts to `append`."""

    @classmethod
    def decode(cls, buffer: Buffer, version: int, position: int = 0) -> Self:
        """Decode the message that begins at `position` and ends at the end of `buffer`.

        Raises:
            MalformedMessage: the version is unknown, or the bytes are truncated or not of this
                type.
        """
        message, end = cls.decode_prefix(buffer, version, position)
        if end != len(buffer):
            raise MalformedMessage(f"{cls.__name__} v{version} ends at byte {end} of {len(buffer)}")
        return message

    @classmethod
    def decode_prefix(cls, buffer: Buffer, version: int, position: int = 0) -> tuple[Self, int]:
        """Decode the message that begins at `position`. Return it and the position after it.

        Raises:
            MalformedMessage: the version is unknown, or the bytes are truncated or not of this
                type.
        """
        decoder = cls.DECODERS.get(version)
        if decoder is None:
            raise MalformedMessage(f"{cls.__name__} has no version {version}")
        try:
            message, end = decoder(buffer, position)
        except (IndexError, struct.error) as error:
            raise MalformedMessage(f"{cls.__name__} v{version} is truncated") from error
        if end > len(buffer):
            raise MalformedMessage(f"{cls.__name__} v{version} is truncated")
        return message, end

    def encode(self, version: int) -> bytes:
        """Encode the message in `version`.

        Raises:
            KeyError: there is no such version.
            UnsupportedField: the version cannot encode the value of a field.
        """
        parts: list[Any] = []
        self.ENCODERS[version](self, parts.append)
        return b"".join(parts)
