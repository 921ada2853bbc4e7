"""How byte strings name their schema in a registry: Confluent's wire format.

    0  1        5
    +--+--------+------------
    |00|   id   | content                  the usual form
    +--+--------+------------
    |01|   GUID (16 bytes)                 in the header __key_schema_id or __value_schema_id; then the
    +--+--------------------               byte string is the content alone

With Protobuf, the content begins with the place of the message in its file: how many numbers follow, and
the numbers, as varints in zigzag. A single 0 is one byte.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.client.errors import SerializationError
from odradek.records.varint import varint

MAGIC = 0
GUID_MAGIC = 1
PREFIX = struct.Struct(">bI")
GUID_SIZE = 17
FIRST = (0,)
KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
SHOWN_BYTES = 8
INDEXES_MAX = 64
"""The deepest place of a message that is believed."""

Headers = Sequence[tuple[str, bytes | None]]


class Framed(NamedTuple):
    """The id or the GUID of a schema, and where the content begins."""

    schema: int | UUID
    start: int


def prefix(schema_id: int) -> bytes:
    """Return the prefix of byte strings of a schema."""
    return PREFIX.pack(MAGIC, schema_id)


def split(data: bytes, headers: Headers, *, is_key: bool) -> Framed:
    """Find the schema of a byte string: in the headers first, then in the prefix.

    Raises:
        SerializationError: there is none.
    """
    wanted = KEY_HEADER if is_key else VALUE_HEADER
    for name, content in headers:
        if name == wanted and content:
            if content[0] == GUID_MAGIC and len(content) == GUID_SIZE:
                return Framed(UUID(bytes=content[1:]), 0)
            if content[0] == MAGIC and len(content) == PREFIX.size:
                return Framed(PREFIX.unpack(content)[1], 0)
            raise SerializationError(
                f"the header {name} is not the id of a schema: {content[:SHOWN_BYTES].hex()}"
            )
    if len(data) >= GUID_SIZE and data[0] == GUID_MAGIC:
        return Framed(UUID(bytes=data[1:GUID_SIZE]), GUID_SIZE)
    if len(data) < PREFIX.size or data[0] != MAGIC:
        raise SerializationError(
            f"it does not begin with the byte {MAGIC} and the id of a schema in the registry, but "
            f"with {data[:SHOWN_BYTES].hex() or 'nothing'}",
            "The topic may have data of another kind, or the writer uses another serializer.",
        )
    return Framed(PREFIX.unpack_from(data)[1], PREFIX.size)


def index_prefixes(indexes: tuple[int, ...]) -> list[bytes]:
    """Return how the place of a message may be written. The first form is the usual one."""
    whole = b"".join(varint(number) for number in (len(indexes), *indexes))
    return [b"\0", whole] if indexes == FIRST else [whole]


def read_indexes(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return the place of a message, and where its bytes begin.

    Raises:
        SerializationError: there is none.
    """
    count, position = _zigzag(data, start)
    if count == 0:
        return FIRST, position
    if not 0 < count <= INDEXES_MAX:
        raise SerializationError(f"the place of its message has {count} numbers")
    found = []
    for _ in range(count):
        number, position = _zigzag(data, position)
        found.append(number)
    return tuple(found), position


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    result, shift = 0, 0
    while position < len(data) and shift < 35:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), position
        shift += 7
    raise SerializationError("the place of its message ends too early")
