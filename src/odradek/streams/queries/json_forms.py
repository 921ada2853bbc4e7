"""Keys and values of stores as JSON, and keys from text.

Bytes are base64. A dataclass is an object. A window is an object with `key`, `start` and `end`.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
from typing import Any

from odradek.core.streams.model.errors import EncodingError
from odradek.core.streams.model.records import Windowed
from odradek.core.streams.model.serdes import Serde
from odradek.streams.queries.errors import QueryError


def json_of(value: Any) -> Any:
    """Return a value as what `json` can write."""
    if isinstance(value, Windowed):
        return {"key": json_of(value.key), "start": value.start, "end": value.end}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: json_of(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): json_of(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_of(each) for each in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def key_from(text: str, serde: Serde) -> Any:
    """Return the key that a text names: a text, a number, base64 for bytes, JSON for all others.

    Raises:
        QueryError: the text is no key of this type.
    """
    try:
        if serde.kind is bytes:
            return base64.b64decode(text, validate=True)
        if serde.kind in (int, float):
            return serde.kind(text)
        if isinstance(serde.kind, type) and issubclass(serde.kind, int):
            return serde.kind(json.loads(text))
        return serde.decode(text.encode())
    except (ValueError, TypeError, EncodingError, binascii.Error) as error:
        raise QueryError(f"{text!r} is no key of the type {serde.name}: {error}") from error
