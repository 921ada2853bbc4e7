"""Serializers without schemas, whose bytes are those of Java's.

| here | Java's serializer and deserializer | bytes |
|---|---|---|
| `Text` | String | UTF-8, or another encoding |
| `Short`, `Integer`, `Long` | the same | 2, 4, 8, big-endian |
| `Float`, `Double` | the same | IEEE 754, 4, 8, big-endian |
| `Boolean` | the same | one byte, 1 or 0 |
| `Uuid` | UUID | its text |
| `Raw` | ByteArray | as they are |
| `Json` | (none) | JSON in UTF-8 |
"""

from __future__ import annotations

import json
import struct
from typing import Any, Generic, TypeVar
from uuid import UUID

from odradek.client.errors import SerializationError

N = TypeVar("N", int, float)


class Text:
    """Texts."""

    def __init__(self, encoding: str = "utf-8") -> None:
        """Raise a LookupError if the encoding is unknown."""
        "".encode(encoding)
        self._encoding = encoding

    def serialize(self, topic: str, value: str, /) -> bytes:
        """Return the bytes of a text. Raise a SerializationError if the encoding lacks a character."""
        del topic
        if not isinstance(value, str):
            raise _wrong("a text", value)
        try:
            return value.encode(self._encoding)
        except UnicodeEncodeError as error:
            raise SerializationError(str(error)) from error

    def deserialize(self, topic: str, data: bytes, /) -> str:
        """Return the text of bytes. Raise a SerializationError if they are not of the encoding."""
        del topic
        try:
            return data.decode(self._encoding)
        except UnicodeDecodeError as error:
            raise SerializationError(str(error)) from error


class Raw:
    """Bytes as they are."""

    def serialize(self, topic: str, value: bytes, /) -> bytes:
        """Return the bytes."""
        del topic
        if not isinstance(value, bytes | bytearray | memoryview):
            raise _wrong("bytes", value)
        return bytes(value)

    def deserialize(self, topic: str, data: bytes, /) -> bytes:
        """Return the bytes."""
        del topic
        return data


class _Number(Generic[N]):
    """A number with a fixed size."""

    def __init__(self, form: str) -> None:
        self._struct = struct.Struct(form)

    def serialize(self, topic: str, value: N, /) -> bytes:
        """Return the bytes of a number. Raise a SerializationError if it is too large."""
        del topic
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong("a number", value)
        try:
            return self._struct.pack(value)
        except (struct.error, OverflowError) as error:
            raise SerializationError(f"{value!r}: {error}") from error

    def deserialize(self, topic: str, data: bytes, /) -> N:
        """Return the number of bytes. Raise a SerializationError if they have another size."""
        del topic
        size = self._struct.size
        if len(data) != size:
            raise SerializationError(f"it has {len(data)} bytes; {type(self).__name__} has {size}")
        number: N = self._struct.unpack(data)[0]
        return number


class Short(_Number[int]):
    """Whole numbers of 16 bits."""

    def __init__(self) -> None:
        super().__init__(">h")


class Integer(_Number[int]):
    """Whole numbers of 32 bits."""

    def __init__(self) -> None:
        super().__init__(">i")


class Long(_Number[int]):
    """Whole numbers of 64 bits."""

    def __init__(self) -> None:
        super().__init__(">q")


class Float(_Number[float]):
    """Numbers of IEEE 754 with 32 bits."""

    def __init__(self) -> None:
        super().__init__(">f")


class Double(_Number[float]):
    """Numbers of IEEE 754 with 64 bits."""

    def __init__(self) -> None:
        super().__init__(">d")


class Boolean:
    """True or false."""

    def serialize(self, topic: str, value: bool, /) -> bytes:
        """Return one byte."""
        del topic
        if not isinstance(value, bool):
            raise _wrong("True or False", value)
        return b"\1" if value else b"\0"

    def deserialize(self, topic: str, data: bytes, /) -> bool:
        """Return the value. Raise a SerializationError if it is not one byte, 1 or 0."""
        del topic
        if data not in {b"\0", b"\1"}:
            raise SerializationError(f"it is not one byte, 1 or 0, but {data[:8].hex()}")
        return data == b"\1"


class Uuid:
    """UUIDs as text."""

    def serialize(self, topic: str, value: UUID, /) -> bytes:
        """Return the text in UTF-8."""
        del topic
        if not isinstance(value, UUID):
            raise _wrong("a UUID", value)
        return str(value).encode()

    def deserialize(self, topic: str, data: bytes, /) -> UUID:
        """Return the UUID of a text. Raise a SerializationError if it is none."""
        del topic
        try:
            return UUID(data.decode())
        except ValueError as error:
            raise SerializationError(f"it is no UUID: {data[:36]!r}") from error


class Json:
    """Values of JSON without a schema: dict, list, str, int, float, bool, None inside of them."""

    def serialize(self, topic: str, value: Any, /) -> bytes:
        """Return JSON without spaces. Raise a SerializationError if a value has no counterpart."""
        del topic
        return encode_json(value)

    def deserialize(self, topic: str, data: bytes, /) -> Any:
        """Return the value. Raise a SerializationError if it is no JSON."""
        del topic
        return decode_json(data)


def encode_json(value: Any) -> bytes:
    """Return JSON in UTF-8.

    Raises:
        SerializationError: a value has no counterpart in JSON.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SerializationError(f"it has no form in JSON: {error}") from error


def decode_json(data: bytes) -> Any:
    """Return the value of JSON in UTF-8.

    Raises:
        SerializationError: it is no JSON.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SerializationError(f"it is no JSON: {error}") from error


def _wrong(wanted: str, value: object) -> SerializationError:
    return SerializationError(f"the serializer needs {wanted}, not {type(value).__name__}")
