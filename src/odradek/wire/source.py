"""Shared parts of the generators of decoders and encoders."""

from __future__ import annotations

from odradek.wire.declaration import Field, Message

FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
ZEROS = {"bool": "False", "float64": "0.0", "uuid": "ZERO_UUID", "string": '""', "bytes": 'b""'}


class Source:
    """Generated lines of Python code, and the precompiled Structs that these lines use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.structs: dict[str, str] = {}
        self.arrays: set[str] = set()
        self._levels = 0

    def body(self) -> Source:
        """Return a new source for the body of a function. It shares the Structs of this source."""
        body = Source()
        body.structs, body.arrays = self.structs, self.arrays
        body.indent()
        return body

    def __call__(self, line: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self._levels + line)

    def indent(self) -> None:
        """Begin a block. The following lines are indented by one more level."""
        self._levels += 1

    def dedent(self, levels: int = 1) -> None:
        """End one or more blocks."""
        self._levels -= levels

    def take_lines(self) -> list[str]:
        """Return the lines and remove them."""
        lines, self.lines = self.lines, []
        return lines

    def struct(self, form: str) -> str:
        """Return the name of the precompiled Struct with this format."""
        return self.structs.setdefault(form, f"S{len(self.structs)}")


def is_shared_default(field: Field) -> bool:
    """Return whether the default is one struct object that all messages share."""
    return (
        field.is_struct and not field.is_array and field.tag is not None and not field.has_default
    )


def default_expression(field: Field) -> str:
    """Return the default of a field as a Python expression."""
    if field.has_default:
        return repr(field.default)
    if field.is_array:
        return "[]"
    if field.is_struct:
        if is_shared_default(field):
            return f"DEFAULT_{field.type}"
        return f"{field.type}()"
    if field.type == "records":
        return "None"
    return ZEROS.get(field.type, "0")


class VersionCodec:
    """The common part of the decoder and the encoder of one version of a message."""

    def __init__(self, out: Source, message: Message, version: int) -> None:
        self.out = out
        self.version = version
        self.message_flexible = version in message.flexible
        self.depth = 0

    def is_flexible(self, field: Field) -> bool:
        """Return whether the lengths in the field's encoding are varints."""
        return self.message_flexible and not field.inflexible

    def split(self, fields: list[Field]) -> tuple[list[Field], list[Field], list[Field]]:
        """Return the untagged fields, the tagged fields in the order of their tags, and the rest.

        The rest are the fields that this version does not have.
        """
        here = [f for f in fields if self.version in f.versions]
        tagged = [f for f in here if self.message_flexible and self.version in f.tagged]
        tagged.sort(key=lambda f: f.tag or 0)
        placed = [f for f in here if f not in tagged]
        absent = [f for f in fields if self.version not in f.versions]
        return placed, tagged, absent

    def is_nullable(self, field: Field) -> bool:
        """Return whether the field may be null in this version."""
        return self.version in field.nullable
