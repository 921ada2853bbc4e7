"""Shared parts of the generators of decoders and encoders."""

from __future__ import annotations

from odradek.wire.declaration import Field, Message

FIXED = {
    "bool": ("?", 1), "int8": ("b", 1), "int16": ("h", 2), "uint16": ("H", 2), "int32": ("i", 4),
    "uint32": ("I", 4), "int64": ("q", 8), "float64": ("d", 8), "uuid": ("16s", 16),
}  # fmt: skip
ZEROS = {"bool": "False", "float64": "0.0", "uuid": "ZERO_UUID", "string": '""', "bytes": 'b""'}


class Source:
    """Generated Python lines, and the precompiled Structs that they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.structs: dict[str, str] = {}
        self.arrays: set[str] = set()
        self._levels = 0

    def body(self) -> Source:
        """Return a source for the lines of a function, which shares the Structs."""
        body = Source()
        body.structs, body.arrays = self.structs, self.arrays
        body.indent()
        return body

    def __call__(self, line: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self._levels + line)

    def indent(self) -> None:
        """Begin a block: indent the following lines by another level."""
        self._levels += 1

    def dedent(self, levels: int = 1) -> None:
        """End blocks."""
        self._levels -= levels

    def take_lines(self) -> list[str]:
        """Return the lines and remove them."""
        lines, self.lines = self.lines, []
        return lines

    def struct(self, form: str) -> str:
        """Return the name of the precompiled Struct of a format."""
        return self.structs.setdefault(form, f"S{len(self.structs)}")


def is_shared_default(field: Field) -> bool:
    """Whether the default is a struct object of the module that all messages share."""
    return (
        field.is_struct and not field.is_array and field.tag is not None and not field.has_default
    )


def default_expression(field: Field) -> str:
    """The default of a field as an expression."""
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
    """The fields of one message in one version, and where the code for them goes."""

    def __init__(self, out: Source, message: Message, version: int) -> None:
        self.out = out
        self.version = version
        self.message_flexible = version in message.flexible
        self.depth = 0

    def is_flexible(self, field: Field) -> bool:
        """Whether lengths of the field are varints."""
        return self.message_flexible and not field.inflexible

    def split(self, fields: list[Field]) -> tuple[list[Field], list[Field], list[Field]]:
        """Return the regular fields of this version, tagged fields by tag, and absent fields."""
        here = [f for f in fields if self.version in f.versions]
        tagged = [f for f in here if self.message_flexible and self.version in f.tagged]
        tagged.sort(key=lambda f: f.tag or 0)
        placed = [f for f in here if f not in tagged]
        absent = [f for f in fields if self.version not in f.versions]
        return placed, tagged, absent

    def is_nullable(self, field: Field) -> bool:
        """Whether the field may be null in this version."""
        return self.version in field.nullable
