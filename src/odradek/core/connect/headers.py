"""Headers as text (`SimpleHeaderConverter`), and the values that texts stand for (`Values`).

A text is read as null, a boolean, a number, a time, a list or a map if it looks like one; otherwise
it stays a text.
"""

from __future__ import annotations

import base64
import datetime
import re
import struct
from decimal import Decimal, InvalidOperation
from typing import Any

from odradek.core.connect import data
from odradek.core.connect.config_def import ConfigDef
from odradek.core.connect.converter import Converter
from odradek.core.connect.data import NULL, Schema, SchemaAndValue, Struct, Type
from odradek.core.connect.errors import DataError
from odradek.core.connect.java_text import java_decimal, java_double, java_float

_DELIMITERS = ':,{}[]"'
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_TIME = re.compile(r"\d{2}:\d{2}:\d{2}\.\d{3}(Z|[+-]\d{4})\Z")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z")
_WIDENING = [Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64]


class SimpleHeaderConverter(Converter):
    """See the module."""

    java_name = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Converter`."""
        return ConfigDef()

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        return None if value is None else text_of(schema, value).encode("utf-8", "replace")

    def to_connect(self, topic: str, value: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        if value is None:
            return NULL
        try:
            return parse_text(bytes(value).decode("utf-8", "replace"))
        except (DataError, RecursionError):
            return SchemaAndValue(data.BYTES, bytes(value))


# -- to text ----------------------------------------------------------------------------------


def text_of(schema: Schema | None, value: Any) -> str:
    """Return the text of a value (`Values.convertToString`).

    Raises:
        DataError: it has a type without a text.
    """
    parts: list[str] = []
    is_float = schema is not None and schema.type == Type.FLOAT32
    _append(parts, value, embedded=False, is_float=is_float)
    return "".join(parts)


def _append(parts: list[str], value: Any, *, embedded: bool, is_float: bool = False) -> None:
    match value:
        case None:
            parts.append("null")
        case bool():
            parts.append("true" if value else "false")
        case float():
            parts.append(java_float(value) if is_float else java_double(value))
        case int():
            parts.append(str(value))
        case Decimal():
            parts.append(java_decimal(value))
        case str():
            parts.append(f'"{_escape(value)}"' if embedded else value)
        case bytes() | bytearray() | memoryview():
            text = base64.b64encode(value).decode()
            parts.append(f'"{text}"' if embedded else text)
        case list() | tuple():
            parts.append("[")
            for index, each in enumerate(value):
                parts.append("," if index else "")
                _append(parts, each, embedded=True)
            parts.append("]")
        case dict():
            pairs = [(key, each, False) for key, each in value.items()]
            _append_pairs(parts, pairs)
        case Struct():
            _append_pairs(
                parts,
                [(f.name, each, f.schema.type == Type.FLOAT32) for f, each in value.items()],
            )
        case datetime.date() | datetime.time():
            parts.append(_time_text(value))
        case _:
            raise DataError(
                f"Failed to serialize unexpected value type {type(value).__name__}: {value}"
            )


def _append_pairs(parts: list[str], pairs: list[tuple[Any, Any, bool]]) -> None:
    parts.append("{")
    for index, (key, value, is_float) in enumerate(pairs):
        parts.append("," if index else "")
        _append(parts, key, embedded=True)
        parts.append(":")
        _append(parts, value, embedded=True, is_float=is_float)
    parts.append("}")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _time_text(value: datetime.date | datetime.time) -> str:
    """Return the text of a time, a date or a timestamp, by its number of milliseconds, in UTC."""
    if isinstance(value, datetime.time):
        ms = data.time_ms(value)
    elif isinstance(value, datetime.datetime):
        ms = data.timestamp_ms(value)
    else:
        ms = data.date_days(value) * 86_400_000
    moment = data.ms_timestamp(ms)
    if ms < 86_400_000:
        return f"{moment:%H:%M:%S}.{ms % 1000:03}Z"
    if ms % 86_400_000 == 0:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


# -- from text --------------------------------------------------------------------------------


def parse_text(text: str) -> SchemaAndValue:
    """Return the value that a text stands for (`Values.parseString`).

    Raises:
        DataError: the text is a list or map with an error.
    """
    if not text:
        return SchemaAndValue(data.STRING, text)
    return _Parser(text).parse(embedded=False) or NULL


class _Parser:
    """Reads one text, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0

    def _has_next(self) -> bool:
        return self._at < len(self._tokens)

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, token: str) -> bool:
        if self._has_next() and self._tokens[self._at].strip() == token:
            self._at += 1
            return True
        return False

    def _take_word(self, word: str, embedded: bool) -> bool:
        start = self._at
        if self._take(word) and (embedded or not self._has_next()):
            return True
        self._at = start
        return False

    def parse(self, *, embedded: bool) -> SchemaAndValue | None:
        """Return a value; None is null."""
        if not self._has_next():
            return None
        if embedded and self._take('"'):
            return self._quoted()
        if self._take_word("null", embedded):
            return None
        for word in ("true", "false"):
            if self._take_word(word, embedded):
                return SchemaAndValue(data.BOOLEAN, word == "true")
        start = self._at
        try:
            if self._take("["):
                return self._array()
            if self._take("{"):
                return self._map()
        except DataError:
            self._at = start
        token = self._next()
        if not token.strip():
            return SchemaAndValue(data.STRING, token)
        return self._single(token.strip(), embedded)

    def _single(self, token: str, embedded: bool) -> SchemaAndValue:
        if token[0].isdigit():
            rest = self._tokens[self._at : self._at + 4]
            found = _temporal(token + "".join(rest)) if len(rest) == 4 else None
            if found is not None:
                self._at += 4
                return found
            found = _temporal(token)
            if found is not None:
                return found
        if token[0].isdigit() or token[0] in "+-":
            number = _number(token)
            if number is not None:
                return number
        if embedded:
            raise DataError("Failed to parse embedded value")
        return SchemaAndValue(data.STRING, self._text)

    def _quoted(self) -> SchemaAndValue:
        parts = []
        while self._has_next() and not self._take('"'):
            parts.append(self._next())
        content = "".join(parts)
        return _temporal(content) or SchemaAndValue(data.STRING, content)

    def _array(self) -> SchemaAndValue:
        values: list[SchemaAndValue | None] = []
        while self._has_next():
            if self._take("]"):
                common = _common(values)
                schema = Schema(Type.ARRAY, value_schema=common)
                return SchemaAndValue(schema, [_aligned(common, each) for each in values])
            if self._take(","):
                raise DataError(f"Unable to parse an empty array element: {self._text}")
            values.append(self.parse(embedded=True))
            position = self._at
            if self._take("]"):
                self._at = position
            elif not self._take(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {self._text}")

    def _map(self) -> SchemaAndValue:
        keys: list[SchemaAndValue | None] = []
        values: list[SchemaAndValue | None] = []
        while self._has_next():
            if self._take("}"):
                key_schema, value_schema = _common(keys), _common(values)
                schema = Schema(Type.MAP, key_schema=key_schema, value_schema=value_schema)
                pairs = zip(keys, values, strict=True)
                found = {_aligned(key_schema, k): _aligned(value_schema, v) for k, v in pairs}
                return SchemaAndValue(schema, found)
            if self._take(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {self._text}")
            key = self.parse(embedded=True)
            if key is None or isinstance(key.value, list | dict):
                raise DataError(f"Map entry may not have a null key: {self._text}")
            if not self._take(":"):
                raise DataError(f"Map entry is missing ':' in {self._text}")
            keys.append(key)
            values.append(self.parse(embedded=True))
            self._take(",")
        raise DataError(f"Map is missing terminating '}}': {self._text}")


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    start, escaped = 0, False
    for index, char in enumerate(text):
        if char == "\\":
            escaped = not escaped
            continue
        if char in _DELIMITERS and not escaped:
            if start < index:
                found.append(text[start:index])
            found.append(char)
            start = index + 1
        escaped = False
    if start < len(text):
        found.append(text[start:])
    return found


def _temporal(token: str) -> SchemaAndValue | None:
    text = token.replace("\\:", ":")
    try:
        if _TIME.match(text):
            return SchemaAndValue(data.TIME, datetime.time.fromisoformat(text[:12]))
        if _DATE.match(text):
            return SchemaAndValue(data.DATE, datetime.date.fromisoformat(text))
        if len(text) >= 24 and text[10] == "T" and _TIME.match(text[11:]):
            moment = datetime.datetime.fromisoformat(text)
            return SchemaAndValue(data.TIMESTAMP, moment.astimezone(data.UTC))
    except ValueError:
        return None
    return None


def _number(token: str) -> SchemaAndValue | None:
    if not _NUMBER.match(token):
        return None
    try:
        value = Decimal(token)
    except InvalidOperation:
        return None
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "a finite number"
    if value.adjusted() < 20 and value == value.to_integral_value():
        whole = int(value)
        for kind, bits in data.INTEGER_BITS.items():
            if -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
                return SchemaAndValue(Schema(kind), whole)
    if exponent == 0:
        return SchemaAndValue(data.decimal_schema(0), value)
    number = float(value)
    try:
        return SchemaAndValue(data.FLOAT32, struct.unpack(">f", struct.pack(">f", number))[0])
    except OverflowError:
        pass
    if number not in (float("inf"), float("-inf")):
        return SchemaAndValue(data.FLOAT64, number)
    return SchemaAndValue(data.decimal_schema(-exponent), value)


def _common(values: list[SchemaAndValue | None]) -> Schema | None:
    """Return the schema that all values have or can be widened to."""
    common: Schema | None = None
    for each in values:
        if each is None or each.schema is None:
            continue
        if common is None or common == each.schema:
            common = each.schema
        elif common.type in _WIDENING and each.schema.type in _WIDENING:
            common = max(common, each.schema, key=lambda schema: _WIDENING.index(schema.type))
        else:
            return None
    return common


def _aligned(common: Schema | None, each: SchemaAndValue | None) -> Any:
    if each is None:
        return None
    if common is not None and common.type in (Type.FLOAT32, Type.FLOAT64):
        return float(each.value)
    return each.value
