"""Builds requests from dicts, and dicts with one field replaced by an extreme value.

The types of the fields come from the declarations of the messages. New fields need no change here.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from odradek.wire.api import message_class
from odradek.wire.build import MESSAGES
from odradek.wire.declaration import Field, read_all
from odradek.wire.primitives import Message

DECLARED = {message.name: message for message in read_all(MESSAGES)[0]}
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
LONG_STRING = 32_000
"""Nearly the maximum length in versions with 16-bit lengths."""
MANY_BYTES = 10 << 20
MANY_ELEMENTS = 500
NOBODY_UUID = bytes(range(16))
PATTERNS = ("(", "a{1000}", "(a*)*" * 50, "((a{100}){100}){100}", "(x+x+)+y", "\\p{Greek}", "a++")
"""Invalid regular expressions, and expressions that need very much memory or time."""

Values = dict[str, Any]
Path = tuple[str | int, ...]


class Change(NamedTuple):
    """A field and its new value."""

    path: Path
    label: str
    value: Any

    def apply(self, values: Values) -> Values:
        """Return a copy of the values with the field replaced."""
        changed = copy.deepcopy(values)
        place: Any = changed
        for step in self.path[:-1]:
            place = place[step]
        place[self.path[-1]] = self.value
        return changed

    def __str__(self) -> str:
        return f"{'.'.join(str(step) for step in self.path)} = {self.label}"


def build(name: str, version: int, values: Values) -> Message:
    """Build the message `name`. Fields that the version does not have are omitted."""
    made = message_class(name)
    return made(
        **_arguments(DECLARED[name].fields, version, values, vars(sys.modules[made.__module__]))
    )


def _arguments(
    fields: list[Field], version: int, values: Values, classes: Mapping[str, Any]
) -> Values:
    def one(field: Field, value: Any) -> Any:
        if field.struct is None or value is None:
            return value
        return classes[field.type](**_arguments(field.struct.fields, version, value, classes))

    return {
        field.name: (
            [one(field, each) for each in values[field.name]]
            if field.is_array and values[field.name] is not None
            else one(field, values[field.name])
        )
        for field in fields
        if version in field.versions and field.name in values
    }


def changes(name: str, version: int, values: Values, unknown: str) -> Iterator[Change]:
    """Yield each change of one field to an extreme value.

    `unknown` is a name that does not exist.
    """
    yield from _changes(DECLARED[name].fields, version, values, unknown, ())


def _changes(
    fields: list[Field], version: int, values: Values, unknown: str, above: Path
) -> Iterator[Change]:
    for field in fields:
        if version not in field.versions or field.name not in values:
            continue
        value, path = values[field.name], (*above, field.name)
        if version in field.nullable and value is not None:
            yield Change(path, "null", None)
        if not field.is_array:
            extremes = _extremes(field, value, unknown)
            yield from (Change(path, label, extreme) for label, extreme in extremes)
            continue
        yield Change(path, "nothing", [])
        if not value:
            continue
        yield Change(path, "the same twice", [*value, *value])
        yield Change(path, "many", value * MANY_ELEMENTS)
        if field.struct is not None:
            struct = field.struct.fields
            yield from _changes(struct, version, value[0], unknown, (*path, 0))
        else:
            for label, extreme in _extremes(field, value[0], unknown):
                yield Change(path, f"one of {label}", [extreme])
                yield Change(path, f"{label} too", [*value, extreme])


def _extremes(field: Field, value: Any, unknown: str) -> Iterator[tuple[str, Any]]:
    if field.type in BITS:
        highest = (1 << (BITS[field.type] - 1)) - 1
        yield "one more", (value or 0) + 1
        numbers = (-highest - 1, -3, -2, -1, 0, highest)
        yield from ((str(number), number) for number in numbers if number != value)
    elif field.type == "bool":
        yield str(not value), not value
    elif field.type == "uuid":
        yield "zero", bytes(16)
        yield "unknown", NOBODY_UUID
    elif field.type == "bytes":
        yield "empty", b""
        yield "nonsense", b"\xff" * 9
        yield "10 MB", b"x" * MANY_BYTES
    else:
        yield "empty", ""
        yield "unknown", unknown
        yield "control characters", f"{unknown}\0\n\u202e"
        yield "long", f"{unknown}{'x' * (LONG_STRING - len(unknown))}"
        if "regex" in field.name or "pattern" in field.name:
            yield from ((pattern[:20], pattern) for pattern in PATTERNS)
