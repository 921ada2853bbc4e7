"""Cast: changes the type of fields, or of the whole value."""

from __future__ import annotations

import base64
import datetime
import re
import struct
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeVar

from odradek.core.connect import data
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance
from odradek.core.connect.data import Schema, Struct, Type, struct_schema
from odradek.core.connect.errors import ConfigError, DataError
from odradek.core.connect.headers import text_of
from odradek.core.connect.java_text import java_float, java_text
from odradek.core.connect.records import ConnectRecord
from odradek.core.connect.transforms.part import PartTransform, key_and_value, with_nulls

RecordT = TypeVar("RecordT", bound=ConnectRecord)
_TARGETS = {each.name: each for each in Type if each.is_primitive and each != Type.BYTES}
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_FLOAT = re.compile(r"\s*[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)\s*\Z")


def _parsed(spec: list[str] | None) -> dict[str | None, Type]:
    """Return the types by field; None is the whole value.

    Raises:
        ConfigError: it is not a list of fields and types.
    """
    if not spec:
        raise ConfigError("Must specify at least one field to cast.")
    found: dict[str | None, Type] = {}
    for each in spec:
        parts = each.split(":")
        if len(parts) > 2:
            raise ConfigError.of("renames", spec, f"Invalid rename mapping: {each}")
        kind = _TARGETS.get(parts[-1].strip().upper())
        if kind is None:
            raise ConfigError(
                f"Invalid type found in casting spec: {parts[-1].strip()}"
                if len(parts) == 1
                else f"Cast transformation does not support casting to {parts[-1].strip()}"
            )
        found[None if len(parts) == 1 else parts[0].strip()] = kind
    if None in found and len(found) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may ony specify a "
            "single cast in their spec"
        )
    return found


def _check(name: str, value: Any) -> None:
    _parsed(value)


class Cast(PartTransform):
    """See the module."""

    purpose = "cast types"
    definitions = with_nulls(
        ConfigDef().define(
            "spec",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="Types of fields, such as age:int32,name:string, or one type for the value.",
            validator=_check,
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self._types: dict[str | None, Type] = {}
        self._schemas: dict[Schema, Schema] = {}

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        super().configure(config)
        self._types = _parsed(self.settings["spec"])

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        schema, value = self.part(record)
        if value is None:
            return record
        whole = self._types.get(None)
        if schema is None:
            if whole is not None:
                return self.changed(record, None, cast_value(None, value, whole))
            updated = dict(self.map_of(value))
            for name, kind in self._types.items():
                updated[name or ""] = cast_value(None, updated.get(name or ""), kind)
            return self.changed(record, None, updated)
        target = self._schemas.get(schema)
        if target is None:
            target = self._schemas[schema] = self._schema(schema)
        if whole is not None:
            return self.changed(record, target, cast_value(schema, value, whole))
        given = self.struct_of(value)
        made = Struct(target)
        for field in given.schema.fields:
            found, wanted = self.value_of(given, field), self._types.get(field.name)
            made[field.name] = found if wanted is None else cast_value(field.schema, found, wanted)
        return self.changed(record, target, made)

    def _schema(self, schema: Schema) -> Schema:
        whole = self._types.get(None)
        if whole is not None:
            default = cast_value(schema, schema.default, whole)
            return Schema(
                whole,
                schema.is_optional,
                default,
                schema.name,
                schema.version,
                schema.doc,
                schema.parameters,
            )
        fields = []
        for each in schema.fields:
            kind = self._types.get(each.name)
            wanted = each.schema
            if kind is not None:
                default = cast_value(each.schema, each.schema.default, kind)
                wanted = Schema(kind, each.schema.is_optional, default)
            fields.append((each.name, wanted))
        made = struct_schema(fields)
        return replace(schema, fields=made.fields, default=None)


def cast_value(schema: Schema | None, value: Any, target: Type) -> Any:
    """Return a value of another type.

    Raises:
        DataError: it cannot be converted.
    """
    if value is None:
        return None
    kind = data.type_of(value) if schema is None else schema.type
    if kind is None or not kind.is_primitive:
        raise DataError(
            f"Cast transformation does not support casting from {kind.name if kind else 'null'}; "
            "supported types are [INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES]"
        )
    if target == Type.STRING:
        return _text(schema, value)
    try:
        return _number(_encoded(value), target)
    except (ValueError, OverflowError):
        raise DataError(f"Value ({value}) was out of range for requested data type") from None


def _encoded(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return data.timestamp_ms(value)
    if isinstance(value, datetime.date):
        return data.date_days(value)
    if isinstance(value, datetime.time):
        return data.time_ms(value)
    return value


def _text(schema: Schema | None, value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return text_of(None, value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if schema is not None and schema.type == Type.FLOAT32:
        return java_float(value)
    return java_text(value)


def _number(value: Any, target: Type) -> Any:
    if not isinstance(value, str | int | float | Decimal):
        raise DataError(f"Unexpected type in Cast transformation: {type(value).__name__}")
    if target == Type.BOOLEAN:
        if isinstance(value, str):
            return value.lower() == "true"
        return _truncated(value, 64) != 0
    if target in (Type.FLOAT32, Type.FLOAT64):
        return _float(value, target)
    bits = data.INTEGER_BITS[target]
    if not isinstance(value, str):
        return _wrap(_truncated(value, max(bits, 32)), bits)
    if not _INTEGER.match(value):
        raise ValueError(value)
    number = int(value)
    if _wrap(number, bits) != number:
        raise ValueError(value)
    return number


def _float(value: str | float | Decimal, target: Type) -> float:
    if isinstance(value, str):
        if not _FLOAT.match(value):
            raise ValueError(value)
        number = float(value.strip().rstrip("fFdD") if "n" not in value else value)
    else:
        number = float(value)
    if target == Type.FLOAT32:
        try:
            unpacked: float = struct.unpack(">f", struct.pack(">f", number))[0]
        except OverflowError:
            return float("inf") if number > 0 else float("-inf")
        return unpacked
    return number


def _truncated(value: float | Decimal, bits: int) -> int:
    """Convert as Java does: numbers with a fraction saturate, whole ones wrap."""
    if isinstance(value, float):
        if value != value:
            return 0
        half = 1 << (bits - 1)
        if value in (float("inf"), float("-inf")):
            return half - 1 if value > 0 else -half
        return max(-half, min(half - 1, int(value)))
    return _wrap(int(value), bits)


def _wrap(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


CAST = key_and_value(Cast)
