"""How values become bytes: types in place of Kafka Streams' serdes.

| type | bytes | Java |
|---|---|---|
| `str` | UTF-8 | StringSerde |
| `int` | 8 bytes, big endian | LongSerde |
| `Int32` | 4 bytes, big endian | IntegerSerde |
| `float` | 8 bytes | DoubleSerde |
| `bytes` | as they are | ByteArraySerde |
| `bool` | one byte | BooleanSerde |
| `dict`, `list`, `tuple`, a dataclass, a TypedDict, `Any` | JSON | a JSON serde |

None becomes a null, and a null becomes None, in all of them.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import types
import typing
from typing import Any

from odradek.core.streams.model.errors import EncodingError, TopologyError
from odradek.core.streams.model.records import Change, Windowed

_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")
_INT = struct.Struct(">i")
_DOUBLE = struct.Struct(">d")
LONG_MAX = 2**63 - 1


class Int32(int):
    """An int of four bytes, as Java's IntegerSerde writes it."""


class Serde:
    """Encodes and decodes values of one type.

    Both methods raise EncodingError with the reason.
    """

    name = "bytes"
    kind: Any = bytes
    """The type of the values."""

    def encode(self, value: Any) -> bytes | None:
        """Return the bytes of a value; None for None."""
        if value is None:
            return None
        if isinstance(value, bytes):
            return value
        raise self.wrong(value)

    def decode(self, data: bytes | None) -> Any:
        """Return the value of bytes; None for None."""
        return data

    def wrong(self, value: Any) -> EncodingError:
        """Return the error for a value of another type."""
        return EncodingError(
            f"{value!r} is {type(value).__name__}, but the type here is {self.name}"
        )

    def __repr__(self) -> str:
        return f"Serde({self.name})"


class StrSerde(Serde):
    """UTF-8."""

    name = "str"
    kind: Any = str

    def encode(self, value: Any) -> bytes | None:
        """Return the text as UTF-8."""
        if isinstance(value, str):
            return value.encode()
        if value is None:
            return None
        raise self.wrong(value)

    def decode(self, data: bytes | None) -> Any:
        """Return the text."""
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise EncodingError(f"{data[:40]!r} is not UTF-8: {error.reason}") from error


class StructSerde(Serde):
    """A number with a fixed number of bytes."""

    def __init__(self, name: str, form: struct.Struct, kind: type) -> None:
        self.name = name
        self.kind = kind
        self._form = form
        self._kind = kind

    def encode(self, value: Any) -> bytes | None:
        """Return the number's bytes."""
        if value is None:
            return None
        try:
            return self._form.pack(value)
        except struct.error as error:
            if isinstance(value, int) and not isinstance(value, bool):
                raise EncodingError(f"{value} does not fit {self._form.size} bytes") from error
            raise self.wrong(value) from error

    def decode(self, data: bytes | None) -> Any:
        """Return the number."""
        if data is None:
            return None
        try:
            number = self._form.unpack(data)[0]
        except struct.error as error:
            raise EncodingError(
                f"{len(data)} bytes are no {self.name}, which has {self._form.size}"
            ) from error
        return number if type(number) is self._kind else self._kind(number)


class JsonSerde(Serde):
    """JSON. `kind` is the class that values have: dict, list, tuple, a dataclass, or object."""

    def __init__(self, kind: Any) -> None:
        self.name = getattr(kind, "__name__", str(kind))
        self.kind = kind
        self._build = _builder(kind)
        plain = kind if isinstance(kind, type) and not typing.is_typeddict(kind) else object
        self._accepts = dict if typing.is_typeddict(kind) else plain

    def encode(self, value: Any) -> bytes | None:
        """Return the value as JSON without spaces."""
        if value is None:
            return None
        if not isinstance(value, self._accepts):
            raise self.wrong(value)
        try:
            return json.dumps(
                value, default=_plain, separators=(",", ":"), ensure_ascii=False
            ).encode()
        except (TypeError, ValueError) as error:
            raise EncodingError(f"{value!r} cannot be written as JSON: {error}") from error

    def decode(self, data: bytes | None) -> Any:
        """Return the value of JSON."""
        if data is None:
            return None
        try:
            return self._build(json.loads(data))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise EncodingError(f"{data[:60]!r} is no JSON of {self.name}: {error}") from error


def _plain(value: Any) -> Any:
    """Return the fields of a dataclass for JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _same(value: Any) -> Any:
    return value


def _builder(kind: Any) -> typing.Callable[[Any], Any]:
    """Return the function that makes a value of `kind` from what JSON has."""
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass_builder(kind)
    if origin in (typing.Union, types.UnionType):
        rest = [each for each in arguments if each is not type(None)]
        if len(rest) == 1:
            inner = _builder(rest[0])
            return lambda value: None if value is None else inner(value)
        return _same
    if kind is tuple:
        return tuple
    if origin is tuple and arguments:
        return tuple
    if origin is list and arguments:
        element = _builder(arguments[0])
        return _same if element is _same else lambda value: [element(each) for each in value]
    if origin is dict and len(arguments) == 2:
        element = _builder(arguments[1])
        if element is _same:
            return _same
        return lambda value: {name: element(each) for name, each in value.items()}
    if kind in (set, frozenset) or origin in (set, frozenset):
        return set if (origin or kind) is set else frozenset
    return _same


def _dataclass_builder(kind: type) -> typing.Callable[[Any], Any]:
    """Return the function that makes a dataclass from a dict. Unknown names are left out."""
    hints = typing.get_type_hints(kind)
    builders = {
        field.name: _builder(hints[field.name]) for field in dataclasses.fields(kind) if field.init
    }

    def build(value: Any) -> Any:
        return kind(
            **{name: builder(value[name]) for name, builder in builders.items() if name in value}
        )

    return build


BYTES = Serde()
STR = StrSerde()
LONG = StructSerde("int", _LONG, int)
_SERDES: dict[Any, Serde] = {
    bytes: BYTES,
    str: STR,
    int: LONG,
    Int32: StructSerde("Int32", _INT, int),
    float: StructSerde("float", _DOUBLE, float),
    bool: StructSerde("bool", struct.Struct(">?"), bool),
}


def serde_of(kind: Any) -> Serde:
    """Return how values of a type are encoded. `kind` may be a Serde.

    Raises:
        TopologyError: the type has no encoding.
    """
    if isinstance(kind, Serde):
        return kind
    try:
        found = _SERDES.get(kind)
    except TypeError:
        found = None
    if found is not None:
        return found
    outer = typing.get_origin(kind) or kind
    if (
        kind is Any
        or kind is object
        or outer in (dict, list, tuple, set, frozenset)
        or dataclasses.is_dataclass(kind)
        or typing.is_typeddict(kind)
    ):
        return JsonSerde(object if kind is Any else outer if outer is not kind else kind)
    if hasattr(kind, "encode") and hasattr(kind, "decode") and not isinstance(kind, type):
        return CustomSerde(kind)
    raise TopologyError(
        f"{kind!r} has no encoding; use str, int, float, bool, bytes, a dataclass, a TypedDict, "
        "dict, list, tuple, or an object with encode(value) and decode(data)"
    )


class CustomSerde(Serde):
    """Calls an object of the program with `encode(value) -> bytes` and `decode(data) -> value`."""

    def __init__(self, inner: Any) -> None:
        self.name = type(inner).__name__
        self.kind = object
        self._inner = inner

    def encode(self, value: Any) -> bytes | None:
        """Return the bytes from the program's encoder."""
        if value is None:
            return None
        try:
            return bytes(self._inner.encode(value))
        except Exception as error:
            raise EncodingError(f"{self.name} cannot encode {value!r}: {error}") from error

    def decode(self, data: bytes | None) -> Any:
        """Return the value from the program's decoder."""
        if data is None:
            return None
        try:
            return self._inner.decode(data)
        except Exception as error:
            raise EncodingError(f"{self.name} cannot decode {data[:40]!r}: {error}") from error


class WindowedSerde(Serde):
    """A key with the window's start (8 bytes). The size of the window is known."""

    def __init__(self, inner: Serde, size_ms: int) -> None:
        self.name = f"Windowed[{inner.name}]"
        self.kind = Windowed
        self.inner = inner
        self.size_ms = size_ms

    def encode(self, value: Any) -> bytes | None:
        """Return the key and the start of the window."""
        if value is None:
            return None
        if not isinstance(value, Windowed):
            raise self.wrong(value)
        key = self.inner.encode(value.key)
        assert key is not None
        return key + _LONG.pack(value.start)

    def decode(self, data: bytes | None) -> Any:
        """Return the key with its window."""
        if data is None:
            return None
        start = _LONG.unpack_from(data, len(data) - 8)[0]
        end = min(start + self.size_ms, LONG_MAX)
        return Windowed(self.inner.decode(data[:-8]), start, end)


class SessionSerde(Serde):
    """A key with the session's end and start (8 bytes each)."""

    def __init__(self, inner: Serde) -> None:
        self.name = f"Session[{inner.name}]"
        self.kind = Windowed
        self.inner = inner

    def encode(self, value: Any) -> bytes | None:
        """Return the key, the end and the start of the session."""
        if value is None:
            return None
        if not isinstance(value, Windowed):
            raise self.wrong(value)
        key = self.inner.encode(value.key)
        assert key is not None
        return key + _TWO_LONGS.pack(value.end, value.start)

    def decode(self, data: bytes | None) -> Any:
        """Return the key with its session."""
        if data is None:
            return None
        end, start = _TWO_LONGS.unpack_from(data, len(data) - 16)
        return Windowed(self.inner.decode(data[:-16]), start, end)


class ChangeSerde(Serde):
    """An update of a table in a repartition topic (Kafka's ChangedSerializer).

    The last byte says what precedes it: 0 the old value, 1 the new value, 2 the length of the new
    value as a zigzag varint, the new value and the old value. From 3 to 5 another byte before it says
    whether the update is the latest (Kafka reserves them for versioned tables).
    """

    def __init__(self, inner: Serde) -> None:
        self.name = f"Change[{inner.name}]"
        self.inner = inner

    def encode(self, value: Any) -> bytes | None:
        """Return the old and the new value."""
        new = self.inner.encode(value.new)
        old = self.inner.encode(value.old)
        if new is not None and old is not None:
            return _varint(len(new) << 1) + new + old + b"\x02"
        if new is not None:
            return new + b"\x01"
        if old is not None:
            return old + b"\x00"
        raise EncodingError("an update of a grouped table has neither an old nor a new value")

    def decode(self, data: bytes | None) -> Any:
        """Return the update."""
        if not data:
            raise EncodingError("an update of a grouped table has no bytes")
        form = data[-1]
        end = len(data) - 1
        is_latest = True
        if form >= 3:
            is_latest = data[end - 1] == 1
            end -= 1
            form -= 3
        decode = self.inner.decode
        if form == 0:
            return Change(None, decode(data[:end]), is_latest)
        if form == 1:
            return Change(decode(data[:end]), None, is_latest)
        if form == 2:
            length, start = _read_varint(data)
            middle = start + (length >> 1)
            return Change(decode(data[start:middle]), decode(data[middle:end]), is_latest)
        raise EncodingError(f"an update of a grouped table has the unknown form {data[-1]}")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, int]:
    value = shift = place = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
