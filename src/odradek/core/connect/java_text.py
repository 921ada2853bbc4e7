"""Texts that Java makes of values: numbers, lists, maps, and JSON as Jackson writes it."""

from __future__ import annotations

import base64
import datetime
import math
import re
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_FLOAT = struct.Struct(">f")
_NEEDS_ESCAPE = re.compile(r'[\x00-\x1f"\\]')
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def java_double(value: float) -> str:
    """Return `Double.toString(value)`."""
    return _number(value, repr(value))


def java_float(value: float) -> str:
    """Return `Float.toString(value)`: the shortest decimal that is this float of 32 bits."""
    if not math.isfinite(value):
        return _number(value, repr(value))
    try:
        packed = _FLOAT.pack(value)
    except OverflowError:
        return "Infinity" if value > 0 else "-Infinity"
    exact: float = _FLOAT.unpack(packed)[0]
    for digits in range(1, 10):
        text = f"{exact:.{digits}g}"
        if _packs_to(text, packed):
            return _number(exact, text)
    return _number(exact, repr(exact))


def _packs_to(text: str, packed: bytes) -> bool:
    try:
        return _FLOAT.pack(float(text)) == packed
    except OverflowError:
        return False


def _number(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int), "a finite number"
    minus = "-" if sign or (value == 0 and math.copysign(1, value) < 0) else ""
    if value == 0:
        return f"{minus}0.0"
    text = "".join(map(str, digits))
    point = len(text) + exponent
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        whole = text[:point].ljust(point, "0")
        return f"{minus}{whole}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def java_decimal(value: Decimal) -> str:
    """Return `BigDecimal.toString()`."""
    return str(value)


def java_date(value: datetime.date | datetime.time) -> str:
    """Return `java.util.Date.toString()` in UTC of a date, a time or a timestamp."""
    if isinstance(value, datetime.time):
        value = datetime.datetime.combine(datetime.date(1970, 1, 1), value)
    elif not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    return f"{value:%a %b %d %H:%M:%S} UTC {value.year}"


def java_text(value: Any) -> str:
    """Return `String.valueOf(value)` of a value of Connect. Times are shown in UTC."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case list() | tuple():
            return "[" + ", ".join(map(java_text, value)) + "]"
        case dict():
            pairs = (f"{java_text(key)}={java_text(each)}" for key, each in value.items())
            return "{" + ", ".join(pairs) + "}"
        case datetime.date() | datetime.time():
            return java_date(value)
        case _ if hasattr(value, "schema") and hasattr(value, "items"):
            shown = (f"{f.name}={_field_text(f, v)}" for f, v in value.items() if v is not None)
            return f"Struct{{{','.join(shown)}}}"
        case _:
            return str(value)


def _field_text(field: Any, value: Any) -> str:
    if field.schema.type.value == "float":
        return java_float(value)
    return java_text(value)


class Number(str):
    """A number that is written in JSON as it is."""

    __slots__ = ()


def json_text(value: Any) -> str:
    """Return JSON as Jackson writes it: without spaces, non-ASCII characters as they are."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts)


def json_bytes(value: Any) -> bytes:
    """Return `json_text` in UTF-8. An unpaired surrogate becomes `?`."""
    return json_text(value).encode("utf-8", "replace")


def _write(value: Any, parts: list[str]) -> None:
    if value is None:
        parts.append("null")
    elif isinstance(value, Number):
        parts.append(str.__str__(value))
    elif isinstance(value, str):
        parts.append(_quoted(value))
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, int):
        parts.append(str(value))
    elif isinstance(value, float):
        text = java_double(value)
        parts.append(text if math.isfinite(value) else f'"{text}"')
    elif isinstance(value, Decimal):
        parts.append(java_decimal(value))
    elif isinstance(value, Mapping):
        before = "{"
        for key, each in value.items():
            parts.append(before + _quoted(key) + ":")
            _write(each, parts)
            before = ","
        parts.append("{}" if before == "{" else "}")
    elif isinstance(value, list | tuple):
        before = "["
        for each in value:
            parts.append(before)
            _write(each, parts)
            before = ","
        parts.append("[]" if before == "[" else "]")
    elif isinstance(value, bytes):
        parts.append(f'"{base64.b64encode(value).decode()}"')
    else:
        raise TypeError(f"{type(value).__name__} is not JSON")


def _quoted(text: str) -> str:
    if _NEEDS_ESCAPE.search(text) is None:
        return f'"{text}"'
    return '"' + _NEEDS_ESCAPE.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    char = found.group()
    return _ESCAPES.get(char) or f"\\u{ord(char):04X}"
