"""Output formats of `odradek consume`: text, JSON, or a template."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

import click

from odradek.model.topic_partition import TopicPartition
from odradek.operations.texts import time_text
from odradek.records.record import Record

Renderer = Callable[[TopicPartition, Record], bytes]
"""Returns a record as bytes, with the line end."""

FIELDS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_ms",
    "key",
    "value",
    "headers",
    "key_size",
    "value_size",
)
_PLACE = re.compile(rb"\{([a-z_]*)\}")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class TextColumns:
    """Columns of a line of text besides the value."""

    timestamps: bool = False
    offsets: bool = False
    keys: bool = False
    headers: bool = False


def make_renderer(form: str, columns: TextColumns, separator: str, null: str) -> Renderer:
    """Return the renderer of a format: `text`, `json`, or a template with fields in braces.

    Raises:
        UsageError: the format is none of these, or a field is unknown.
    """
    if form == "json":
        return _render_json
    if form == "text":
        return _template(_text_template(columns, separator), os.fsencode(null))
    if "{" not in form:
        raise click.UsageError(f"--format {form!r}: write text, json or a template with {{value}}")
    return _template(os.fsencode(unescape(form)), os.fsencode(null))


def unescape(text: str) -> str:
    r"""Replace escapes such as `\t` and `\n` by their characters."""
    return re.sub(r"\\([ntr0\\])", lambda found: _ESCAPES[found[1]], text)


def _text_template(columns: TextColumns, separator: str) -> bytes:
    parts = [
        *(["{timestamp}"] if columns.timestamps else []),
        *(["{topic}-{partition}@{offset}"] if columns.offsets else []),
        *(["{headers}"] if columns.headers else []),
        *(["{key}"] if columns.keys else []),
        "{value}",
    ]
    return os.fsencode(unescape(separator).join(parts)) + b"\n"


def _template(template: bytes, null: bytes) -> Renderer:
    names = [name.decode() for name in _PLACE.findall(template)]
    for name in names:
        if name not in FIELDS:
            raise click.UsageError(f"{{{name}}} is not a field; there are {', '.join(FIELDS)}")
    if names == ["value"] and template == b"{value}\n":
        return lambda _, record: (null if record.value is None else record.value) + b"\n"
    getters = [_getter(name, null) for name in names]
    literals = _PLACE.split(template)[::2]

    def render(key: TopicPartition, record: Record) -> bytes:
        parts = [literals[0]]
        for getter, literal in zip(getters, literals[1:], strict=True):
            parts += (getter(key, record), literal)
        return b"".join(parts)

    return render


def _getter(name: str, null: bytes) -> Renderer:
    def or_null(data: bytes | None) -> bytes:
        return null if data is None else data

    def size(data: bytes | None) -> bytes:
        return b"-1" if data is None else str(len(data)).encode()

    getters: dict[str, Renderer] = {
        "topic": lambda key, _: key.topic.encode(),
        "partition": lambda key, _: str(key.partition).encode(),
        "offset": lambda _, record: str(record.offset).encode(),
        "timestamp": lambda _, record: time_text(record.timestamp).encode(),
        "timestamp_ms": lambda _, record: str(record.timestamp).encode(),
        "key": lambda _, record: or_null(record.key),
        "value": lambda _, record: or_null(record.value),
        "headers": lambda _, record: b",".join(
            name.encode() + b"=" + or_null(content) for name, content in record.headers
        ),
        "key_size": lambda _, record: size(record.key),
        "value_size": lambda _, record: size(record.value),
    }
    return getters[name]


def _render_json(key: TopicPartition, record: Record) -> bytes:
    document: dict[str, object] = {
        "topic": key.topic,
        "partition": key.partition,
        "offset": record.offset,
        "timestamp": time_text(record.timestamp, utc=True),
        "timestamp_ms": record.timestamp,
        **json_bytes("key", record.key),
        **json_bytes("value", record.value),
        "headers": [
            {"name": name, **json_bytes("value", content)} for name, content in record.headers
        ],
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def json_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return UTF-8 text as the member `name`, other bytes as the member `name_base64`."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name + "_base64": base64.b64encode(data).decode()}
