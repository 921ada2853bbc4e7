"""Encodes and decodes the records of `__consumer_offsets` and `__transaction_state`.

    key:   int16 type    | message of this type in version 0
    value: int16 version | message in this version

A null value deletes the key (tombstone).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from odradek.wire.primitives import Buffer, MalformedMessage, Message

_NUMBER: Final = Struct(">h")
_NUMBERS: Final = tuple(_NUMBER.pack(n) for n in range(32))


class MalformedRecord(ValueError):
    """The bytes are not a valid record of a coordinator's log."""


class CoordinatorRecord(NamedTuple):
    """A key and its new value. The messages must not be changed after the record was created."""

    key: Message
    value: Message | None
    """None deletes the key."""
    version: int = 0
    """The version in which the value is written."""


KeyMessages = Mapping[int, tuple[type[Message], type[Message]]]
"""The message classes of key and value, by record type."""


def encode(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Return the bytes of the key and the value."""
    key, value, version = record
    kind = key.API_KEY
    assert kind is not None
    parts: list[Any] = [_NUMBERS[kind] if kind < len(_NUMBERS) else _NUMBER.pack(kind)]
    append: Callable[[Any], object] = parts.append
    key.ENCODERS[0](key, append)
    key_bytes = b"".join(parts)
    if value is None:
        return key_bytes, None
    parts = [_NUMBERS[version]]
    value.ENCODERS[version](value, parts.append)
    return key_bytes, b"".join(parts)


def decode(
    key: Buffer | None, value: Buffer | None, messages: KeyMessages
) -> CoordinatorRecord | None:
    """Decode a record. Return None if its type is not in `messages`.

    Like Apache Kafka, the caller skips unknown types, because a newer broker may have written them.

    Raises:
        MalformedRecord: the bytes are invalid, or have an unknown version.
    """
    if key is None or len(key) < _NUMBER.size:
        raise MalformedRecord("a coordinator's record has no type in its key")
    (kind,) = _NUMBER.unpack_from(key)
    classes = messages.get(kind)
    if classes is None:
        return None
    key_class, value_class = classes
    try:
        key_message = key_class.decode(key, 0, _NUMBER.size)
        if value is None:
            return CoordinatorRecord(key_message, None)
        if len(value) < _NUMBER.size:
            raise MalformedRecord(f"the value of a {key_class.__name__} has no version")
        (version,) = _NUMBER.unpack_from(value)
        value_message = value_class.decode(value, version, _NUMBER.size)
    except MalformedMessage as error:
        raise MalformedRecord(str(error)) from error
    return CoordinatorRecord(key_message, value_message, version)
