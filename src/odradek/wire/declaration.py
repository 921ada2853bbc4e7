"""Reads the message declarations in `messages/`.

A declaration file holds one API (its request and response) or a family of records. Every line
is one statement. The fields of a struct are indented below it:

    api 0 Produce                       the API key and name
    listeners broker controller         the listeners that serve the API
    request 3-13 flexible 9+            a message, its versions, and its flexible versions
      transactional_id  string?  = null
      topics            [Topic]  5+     an array of structs, from version 5 on
        name            string
      leader            Leader   10+  tag 0
      struct Leader                     a struct used more than once
        leader_id       int32    = -1

Other messages begin with `header`, `data`, `metadata N`, `key N` or `value N` and a name. A `?`
after the type makes a field nullable; `?7+` makes it nullable from version 7 on. After a field's
name and type, these words may follow in any order:

- A range of versions that have the field. Without a range, all versions have it.
- `tag N [range]`: the field is tagged in these versions.
- `ignorable`: Kafka drops the field in a version that does not have it, and rejects any other field
  with a value that the version cannot hold. The encoders here drop every field that a version does
  not have.
- `inflexible`: the field keeps the non-flexible encoding in flexible versions.
- `= value`: the default.

Names, types, versions, defaults and tags are equal to the schemas in Apache Kafka's jars.
`tests/oracle` compares the declarations with the schemas field by field.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from odradek.wire.versions import ALL_VERSIONS, NO_VERSIONS, Versions

Kind = Literal["request", "response", "header", "data", "metadata", "key", "value"]
Default = int | float | bool | str | None

PRIMITIVES = frozenset(
    [
        "bool",
        "int8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "float64",
        "uuid",
        "string",
        "bytes",
        "records",
    ]
)


class DeclarationError(ValueError):
    """A declaration is invalid. The error message has the file and the line."""


@dataclass(frozen=True)
class Struct:
    """A named group of fields that exists in `versions`."""

    name: str
    versions: Versions
    fields: list[Field]


@dataclass(frozen=True)
class Field:
    """A field of a message or struct.

    `type` is the name of a primitive type or of a struct. If `is_array`, the field is an array of
    elements of this type.
    """

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    ignorable: bool
    inflexible: bool
    default: Default
    has_default: bool
    struct: Struct | None

    @property
    def is_struct(self) -> bool:
        """Whether the type is a struct rather than a primitive."""
        return self.type not in PRIMITIVES


@dataclass
class Message:
    """One message with all its versions."""

    name: str
    kind: Kind
    api_key: int | None
    versions: Versions
    flexible: Versions
    unstable: Versions
    fields: list[Field] = field(default_factory=list)
    structs: dict[str, Struct] = field(default_factory=dict)


@dataclass
class Api:
    """A request and its response."""

    key: int
    name: str
    listeners: tuple[str, ...]
    request: Message
    response: Message


class _Line(NamedTuple):
    number: int
    indent: int
    words: list[str]


def _lines(text: str) -> Iterator[_Line]:
    for number, raw in enumerate(text.splitlines(), 1):
        content = raw.split("#", 1)[0].rstrip()
        if content:
            indent = len(content) - len(content.lstrip())
            yield _Line(number, indent, content.split())


def _is_versions(word: str) -> bool:
    return word[:1].isdigit()


class _Parser:
    def __init__(self, source: str, text: str) -> None:
        self._source = source
        self._rows = list(_lines(text))
        self._at = 0

    def _fail(self, row: _Line, problem: str) -> DeclarationError:
        return DeclarationError(f"{self._source}:{row.number}: {problem}: {' '.join(row.words)}")

    def parse(self) -> tuple[list[Message], Api | None]:
        messages: list[Message] = []
        key: int | None = None
        name = ""
        listeners: tuple[str, ...] = ()
        while self._at < len(self._rows):
            row = self._rows[self._at]
            self._at += 1
            match row.words:
                case ["api", number, name]:
                    key = int(number)
                case ["listeners", *names]:
                    listeners = tuple(names)
                case ["request" | "response" as kind, *rest]:
                    messages.append(self._message(row, kind, name + kind.title(), key, rest))
                case ["header" | "data" as kind, message_name, *rest]:
                    messages.append(self._message(row, kind, message_name, None, rest))
                case ["metadata" | "key" | "value" as kind, number, message_name, *rest]:
                    messages.append(self._message(row, kind, message_name, int(number), rest))
                case _:
                    raise self._fail(row, "expected a message")
        if key is None:
            return messages, None
        request, response = messages
        return messages, Api(key, name, listeners, request, response)

    def _message(
        self, row: _Line, kind: str, name: str, key: int | None, rest: Sequence[str]
    ) -> Message:
        flexible = unstable = NO_VERSIONS
        match rest:
            case [versions, "flexible", flexible_text]:
                pass
            case [versions, "flexible", flexible_text, "unstable", unstable_text]:
                unstable = Versions.parse(unstable_text)
            case _:
                raise self._fail(row, "expected 'VERSIONS flexible VERSIONS [unstable VERSIONS]'")
        flexible = Versions.parse(flexible_text)
        message = Message(name, kind, key, Versions.parse(versions), flexible, unstable)  # type: ignore[arg-type]
        message.fields.extend(self._fields(row.indent, message))
        self._resolve(message, message.fields)
        for struct in message.structs.values():
            self._resolve(message, struct.fields)
        return message

    def _fields(self, above: int, message: Message) -> list[Field]:
        fields: list[Field] = []
        indent = -1
        while self._at < len(self._rows):
            row = self._rows[self._at]
            if row.indent <= above:
                break
            if indent < 0:
                indent = row.indent
            if row.indent != indent:
                raise self._fail(row, "uneven indentation")
            self._at += 1
            if row.words[0] == "struct":
                self._common_struct(row, message)
            else:
                fields.append(self._field(row, message))
        return fields

    def _common_struct(self, row: _Line, message: Message) -> None:
        name = row.words[1]
        versions = Versions.parse(row.words[2]) if len(row.words) > 2 else ALL_VERSIONS
        message.structs[name] = Struct(name, versions, self._fields(row.indent, message))

    def _field(self, row: _Line, message: Message) -> Field:
        name, type_text, *rest = row.words
        type_text, question, nullable_text = type_text.partition("?")
        nullable = NO_VERSIONS
        if question:
            nullable = Versions.parse(nullable_text) if nullable_text else ALL_VERSIONS
        is_array = type_text.startswith("[")
        base = type_text.strip("[]")
        versions, tagged = ALL_VERSIONS, NO_VERSIONS
        tag: int | None = None
        ignorable = inflexible = has_default = False
        default: Default = None
        words = list(rest)
        while words:
            word = words.pop(0)
            if word == "tag":
                tag = int(words.pop(0))
                tagged = ALL_VERSIONS
                if words and _is_versions(words[0]):
                    tagged = Versions.parse(words.pop(0))
            elif word == "ignorable":
                ignorable = True
            elif word == "inflexible":
                inflexible = True
            elif word == "=":
                default, has_default = _literal(words.pop(0)), True
            elif _is_versions(word):
                versions = Versions.parse(word)
            else:
                raise self._fail(row, f"unknown word {word!r}")
        struct: Struct | None = None
        if base not in PRIMITIVES:
            nested = self._fields(row.indent, message)
            struct = Struct(base, versions, nested) if nested else None
        return Field(
            name=name,
            type=base,
            is_array=is_array,
            versions=versions,
            nullable=nullable,
            tag=tag,
            tagged=tagged,
            ignorable=ignorable,
            inflexible=inflexible,
            default=default,
            has_default=has_default,
            struct=struct,
        )

    def _resolve(self, message: Message, fields: list[Field]) -> None:
        """Set the struct of each field that refers to a common struct."""
        for i, each in enumerate(fields):
            if not each.is_struct:
                continue
            if each.struct is not None:
                self._resolve(message, each.struct.fields)
                continue
            struct = message.structs.get(each.type)
            if struct is None:
                raise DeclarationError(f"{self._source}: {message.name}: no struct {each.type}")
            fields[i] = Field(**{**each.__dict__, "struct": struct})


def _literal(text: str) -> Default:
    if text in {"null", "true", "false"}:
        return {"null": None, "true": True, "false": False}[text]
    if text.startswith('"'):
        return text.strip('"')
    return int(text)


def read_file(path: Path) -> tuple[list[Message], Api | None]:
    """Read the messages of a declaration file, and the API if it declares one.

    Raises:
        DeclarationError: a line is invalid.
    """
    return _Parser(path.name, path.read_text(encoding="utf-8")).parse()


def read_all(directory: Path) -> tuple[list[Message], list[Api]]:
    """Read all messages of the files `*.msg` in `directory`, and the APIs in the order of their
    keys."""
    messages: list[Message] = []
    apis: list[Api] = []
    for path in sorted(directory.glob("*.msg")):
        found, api = read_file(path)
        messages.extend(found)
        if api is not None:
            apis.append(api)
    return messages, apis
