"""Messages with arbitrary values, made from their declarations.

A `Source` provides the random values: a seeded generator (quick, for all versions of all messages)
or hypothesis (which shrinks what it finds).
"""

from __future__ import annotations

import random
import sys
from typing import Any, Protocol

from hypothesis import strategies as st

from odradek.wire.api import message_class
from odradek.wire.build import MESSAGES
from odradek.wire.declaration import Field, Message, read_all
from odradek.wire.primitives import Message as GeneratedMessage
from odradek.wire.versions import Versions

DECLARED, APIS = read_all(MESSAGES)
BY_NAME = {message.name: message for message in DECLARED}
ALL_VERSIONS = [
    (message.name, version)
    for message in DECLARED
    for version in range(message.versions.low, message.versions.high + 1)
]
INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


class Source(Protocol):
    """Where arbitrary values come from."""

    def integer(self, low: int, high: int) -> int: ...
    def text(self) -> str: ...
    def bytes(self, length: int | None = None) -> bytes: ...
    def double(self) -> float: ...
    def flag(self) -> bool: ...


class Seeded:
    """A seeded generator that likes the edges of ranges."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        if self._random.random() < 0.3:
            return self._random.choice((low, high, max(low, min(0, high))))
        return self._random.randint(low, high)

    def text(self) -> str:
        length = 200 if self._random.random() < 0.03 else self._random.randrange(8)
        return "".join(self._random.choices("ab\0é€\U0001f9f5.-", k=length))

    def bytes(self, length: int | None = None) -> bytes:
        if length is None:
            length = 200 if self._random.random() < 0.03 else self._random.randrange(8)
        return self._random.randbytes(length)

    def double(self) -> float:
        return self._random.choice((0.0, -1.5, 1e300, self._random.random()))

    def flag(self) -> bool:
        return self._random.random() < 0.3


class Drawn:
    """Draws from hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def text(self) -> str:
        return self._draw(st.text(max_size=150))

    def bytes(self, length: int | None = None) -> bytes:
        low, high = (0, 150) if length is None else (length, length)
        return self._draw(st.binary(min_size=low, max_size=high))

    def double(self) -> float:
        return self._draw(st.floats(allow_nan=False))

    def flag(self) -> bool:
        return self._draw(st.booleans())


def sample(name: str, version: int, source: Source) -> GeneratedMessage:
    """A message with arbitrary values in the fields that `version` has."""
    cls = message_class(name)
    return cls(**_values(_fields(BY_NAME[name]), version, source, cls.__module__, depth=0))


@st.composite
def samples(draw: st.DrawFn, name: str) -> tuple[GeneratedMessage, int]:
    """An arbitrary message and its version."""
    versions: Versions = BY_NAME[name].versions
    version = draw(st.integers(versions.low, versions.high))
    return sample(name, version, Drawn(draw)), version


def _fields(message: Message) -> list[Field]:
    return message.fields


def _values(
    fields: list[Field], version: int, source: Source, module: str, depth: int
) -> dict[str, Any]:
    return {
        field.name: _value(field, version, source, module, depth)
        for field in fields
        if version in field.versions
    }


def _value(field: Field, version: int, source: Source, module: str, depth: int) -> Any:
    if version in field.nullable and source.flag():
        return None
    if not field.is_array:
        return _one(field, version, source, module, depth)
    count = source.integer(0, 3 if depth < 2 else 1)
    return [_one(field, version, source, module, depth + 1) for _ in range(count)]


def _one(field: Field, version: int, source: Source, module: str, depth: int) -> Any:
    if field.struct is not None:
        cls = getattr(sys.modules[module], field.type)
        return cls(**_values(field.struct.fields, version, source, module, depth + 1))
    if field.type in INTEGERS:
        return source.integer(*INTEGERS[field.type])
    match field.type:
        case "bool":
            return source.flag()
        case "float64":
            return source.double()
        case "uuid":
            return source.bytes(16)
        case "string":
            return source.text()
        case _:
            return source.bytes()
