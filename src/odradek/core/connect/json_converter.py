"""JSON with or without a schema (`JsonConverter`). The bytes are those of Java's converter.

With `schemas.enable`, a value is `{"schema": …, "payload": …}`.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from odradek.core.connect import data
from odradek.core.connect.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    Width,
    one_of_in_any_case,
)
from odradek.core.connect.converter import Converter, converter_config
from odradek.core.connect.data import NULL, Schema, SchemaAndValue, Struct, Type, struct_schema
from odradek.core.connect.errors import DataError
from odradek.core.connect.java_text import Number, java_float, json_bytes

_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
    "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false "
    "in your converter configuration."
)
_BAD_JSON = "Converting byte[] to Kafka Connect data failed due to serialization error: "
_FLOAT = struct.Struct(">f")
_TYPES = {each.value: each for each in Type}


def _config() -> ConfigDef:
    config = converter_config()
    schemas, serialization = "Schemas", "Serialization"
    config.define(
        "schemas.enable",
        ConfigType.BOOLEAN,
        True,
        Importance.HIGH,
        "Whether each key and value carries its schema.",
        group=schemas,
        order=0,
        width=Width.MEDIUM,
        display="Enable Schemas",
    )
    config.define(
        "schemas.cache.size",
        ConfigType.INT,
        1000,
        Importance.HIGH,
        "How many schemas are remembered.",
        group=schemas,
        order=1,
        width=Width.MEDIUM,
        display="Schema Cache Size",
    )
    config.define(
        "schema.content",
        ConfigType.STRING,
        None,
        Importance.HIGH,
        "The JSON schema of all records. If it is given, records are read as plain JSON.",
        group=schemas,
        order=2,
        width=Width.MEDIUM,
        display="Schema Content",
    )
    config.define(
        "decimal.format",
        ConfigType.STRING,
        "BASE64",
        Importance.LOW,
        "How decimals are written: BASE64 of the unscaled value, or NUMERIC.",
        validator=one_of_in_any_case("BASE64", "NUMERIC"),
        group=serialization,
        order=0,
        width=Width.MEDIUM,
        display="Decimal Format",
    )
    config.define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        True,
        Importance.LOW,
        "Whether a null in a field with a default is written and read as the default.",
        group=serialization,
        order=1,
        width=Width.MEDIUM,
        display="Replace null with default",
    )
    return config


CONFIG = _config()


class JsonConverter(Converter):
    """See the module."""

    java_name = "org.apache.kafka.connect.json.JsonConverter"

    def __init__(self) -> None:
        self._has_schemas = True
        self._is_numeric = False
        self._replaces_null = True
        self._cache_size = 1000
        self._fixed: Schema | None = None
        self._written: dict[int, tuple[Schema, str]] = {}
        """JSON of schemas by the identity of the schema, which is kept so that it stays unique."""
        self._read: dict[str, Schema] = {}

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Converter`."""
        return CONFIG

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        """See `Converter`.

        Raises:
            ConfigError: a value is invalid.
            DataError: `schema.content` is not a schema.
        """
        parsed = CONFIG.parse({**config, "converter.type": "key" if is_key else "value"})
        self._has_schemas = parsed["schemas.enable"]
        self._is_numeric = parsed["decimal.format"].upper() == "NUMERIC"
        self._replaces_null = parsed["replace.null.with.default"]
        self._cache_size = parsed["schemas.cache.size"]
        content = parsed["schema.content"]
        self._fixed = self.schema_of(_parse(content.encode())) if content else None

    # -- to bytes -------------------------------------------------------------------------------

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if schema is None and value is None:
            return None
        if not self._has_schemas:
            return json_bytes(self._json(schema, value))
        payload = self._json(schema, value)
        written = self._schema_text(schema)
        return b'{"schema":%b,"payload":%b}' % (written.encode(), json_bytes(payload))

    def _schema_text(self, schema: Schema | None) -> str:
        if schema is None:
            return "null"
        known = self._written.get(id(schema))
        if known is None:
            if len(self._written) >= self._cache_size:
                self._written.clear()
            text = json_bytes(self.json_schema(schema)).decode()
            known = self._written[id(schema)] = (schema, text)
        return known[1]

    def json_schema(self, schema: Schema | None) -> dict[str, Any] | None:
        """Return a schema as an object of JSON."""
        if schema is None:
            return None
        written: dict[str, Any] = {"type": schema.type.value}
        if schema.type == Type.ARRAY:
            written["items"] = self.json_schema(schema.value_schema)
        elif schema.type == Type.MAP:
            written["keys"] = self.json_schema(schema.key_schema)
            written["values"] = self.json_schema(schema.value_schema)
        elif schema.type == Type.STRUCT:
            written["fields"] = [
                {**(self.json_schema(each.schema) or {}), "field": each.name}
                for each in schema.fields
            ]
        written["optional"] = schema.is_optional
        attributes = {
            "name": schema.name,
            "version": schema.version,
            "doc": schema.doc,
            "parameters": schema.parameter_map or None,
        }
        written |= {name: value for name, value in attributes.items() if value is not None}
        if schema.default is not None:
            written["default"] = self._json(schema, schema.default)
        return written

    def _json(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            if schema is None or (
                schema.is_optional and (schema.default is None or not self._replaces_null)
            ):
                return None
            if schema.default is not None and self._replaces_null:
                return self._json(schema, schema.default)
            raise DataError(
                "Conversion error: null value for field that is required and has no default value"
            )
        if schema is None:
            return self._plain(value)
        if schema.name is not None:
            logical = _TO_JSON.get(schema.name)
            if logical is not None:
                return logical(schema, value, self._is_numeric)
        return self._typed(schema, value)

    def _plain(self, value: Any) -> Any:
        match value:
            case str() | bool() | int() | float() | bytes():
                return value
            case bytearray() | memoryview():
                return bytes(value)
            case list() | tuple():
                return [self._json(None, each) for each in value]
            case dict():
                if all(isinstance(key, str) for key in value):
                    return {key: self._json(None, each) for key, each in value.items()}
                return [[self._json(None, k), self._json(None, v)] for k, v in value.items()]
            case Struct():
                raise DataError("Mismatching schema.")
            case _:
                raise DataError(
                    f"Python class {type(value).__name__} does not have corresponding schema type."
                )

    def _typed(self, schema: Schema, value: Any) -> Any:
        is_flag = schema.type in data.INTEGER_BITS and isinstance(value, bool)
        accepted: Any = _ACCEPTED[schema.type]
        if is_flag or not isinstance(value, accepted):
            raise DataError(f"Invalid type for {schema.type.name}: {type(value).__name__}")
        match schema.type:
            case Type.FLOAT32:
                return Number(_finite(java_float(value)))
            case Type.FLOAT64:
                return float(value)
            case Type.BYTES:
                return bytes(value)
            case Type.ARRAY:
                return [self._json(schema.value_schema, each) for each in value]
            case Type.MAP:
                keys, values = schema.key_schema, schema.value_schema
                if keys is not None and keys.type == Type.STRING:
                    return {k: self._json(values, v) for k, v in value.items()}
                return [[self._json(keys, k), self._json(values, v)] for k, v in value.items()]
            case Type.STRUCT:
                if value.schema is not schema and value.schema != schema:
                    raise DataError("Mismatching schema.")
                return {each.name: self._json(each.schema, v) for each, v in value.items()}
            case _:
                return value

    # -- from bytes -----------------------------------------------------------------------------

    def to_connect(self, topic: str, value: bytes | None) -> SchemaAndValue:
        """See `Converter`.

        Raises:
            DataError: it is not JSON, or does not match the schema.
        """
        if value is None:
            return NULL
        if not self._has_schemas:
            return SchemaAndValue(None, _parse(value, is_plain=True))
        parsed = _parse(value)
        if self._fixed is not None:
            return SchemaAndValue(self._fixed, self._value(self._fixed, parsed))
        if not isinstance(parsed, dict) or parsed.keys() != {"schema", "payload"}:
            raise DataError(_ENVELOPE)
        schema = self.schema_of(parsed["schema"])
        return SchemaAndValue(schema, self._value(schema, parsed["payload"]))

    def schema_of(self, written: Any) -> Schema | None:
        """Return the schema of an object of JSON.

        Raises:
            DataError: it is not a schema.
        """
        if written is None:
            return None
        key = json.dumps(written, default=str)
        known = self._read.get(key)
        if known is None:
            if len(self._read) >= self._cache_size:
                self._read.clear()
            known = self._read[key] = self._new_schema(written)
        return known

    def _new_schema(self, written: Any) -> Schema:
        name = written.get("type") if isinstance(written, dict) else None
        if not isinstance(name, str):
            raise DataError("Schema must contain 'type' field")
        kind = _TYPES.get(name)
        if kind is None:
            raise DataError(f"Unknown schema type: {name}")
        attributes: dict[str, Any] = {"is_optional": written.get("optional") is True}
        for attribute, allowed in (("name", str), ("version", int), ("doc", str)):
            found = written.get(attribute)
            if isinstance(found, allowed) and not isinstance(found, bool):
                attributes[attribute] = found
        parameters = written.get("parameters")
        if isinstance(parameters, dict):
            if not all(isinstance(each, str) for each in parameters.values()):
                raise DataError("Schema parameters must have string values.")
            attributes["parameters"] = tuple(parameters.items())
        schema = self._shape(kind, written, attributes)
        if "default" in written:
            return schema.with_default(self._value(schema, written["default"]))
        return schema

    def _shape(self, kind: Type, written: dict[str, Any], attributes: dict[str, Any]) -> Schema:
        if kind == Type.ARRAY:
            items = self.schema_of(written.get("items"))
            if items is None:
                raise DataError("Array schema did not specify the element type")
            return Schema(kind, value_schema=items, **attributes)
        if kind == Type.MAP:
            if "keys" not in written:
                raise DataError("Map schema did not specify the key type")
            if "values" not in written:
                raise DataError("Map schema did not specify the value type")
            keys, values = self.schema_of(written["keys"]), self.schema_of(written["values"])
            return Schema(kind, key_schema=keys, value_schema=values, **attributes)
        if kind == Type.STRUCT:
            fields = written.get("fields")
            if not isinstance(fields, list):
                raise DataError('Struct schema\'s "fields" argument is not an array.')
            return struct_schema([self._field(each) for each in fields], **attributes)
        return Schema(kind, **attributes)

    def _field(self, written: Any) -> tuple[str, Schema]:
        name = written.get("field") if isinstance(written, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        return name, self._new_schema(written)

    def _value(self, schema: Schema | None, value: Any) -> Any:
        if schema is None:
            return _plain_value(value)
        if value is None:
            if schema.default is not None and self._replaces_null:
                return schema.default
            if schema.is_optional:
                return None
            raise DataError(f"Invalid null value for required {schema.type.name} field")
        if schema.name is not None:
            logical = _FROM_JSON.get(schema.name)
            if logical is not None:
                return logical(schema, value)
        return self._typed_value(schema, value)

    def _typed_value(self, schema: Schema, value: Any) -> Any:
        match schema.type:
            case Type.BOOLEAN:
                return value is True
            case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
                return _narrow(value, schema.type)
            case Type.FLOAT32 | Type.FLOAT64:
                return _double(value, schema.type)
            case Type.STRING:
                return value if isinstance(value, str) else None
            case Type.BYTES:
                return _base64(value, "Invalid bytes field")
            case Type.ARRAY:
                each = value if isinstance(value, list) else []
                if isinstance(value, dict):
                    each = list(value.values())
                return [self._value(schema.value_schema, item) for item in each]
            case Type.MAP:
                return self._map(schema, value)
            case Type.STRUCT:
                if not isinstance(value, dict):
                    raise DataError(
                        f"Structs should be encoded as JSON objects, but found {_node(value)}"
                    )
                found = Struct(schema)
                for field in schema.fields:
                    found[field.name] = self._value(field.schema, value.get(field.name))
                return found

    def _map(self, schema: Schema, value: Any) -> dict[Any, Any]:
        keys, values = schema.key_schema, schema.value_schema
        if keys is not None and keys.type == Type.STRING:
            if not isinstance(value, dict):
                raise DataError(
                    "Maps with string fields should be encoded as JSON objects, but found "
                    f"{_node(value)}"
                )
            return {key: self._value(values, each) for key, each in value.items()}
        if not isinstance(value, list):
            raise DataError(
                "Maps with non-string fields should be encoded as JSON array of tuples, but found "
                f"{_node(value)}"
            )
        found: dict[Any, Any] = {}
        for pair in value:
            if not isinstance(pair, list):
                raise DataError(f"Found invalid map entry instead of array tuple: {_node(pair)}")
            if len(pair) != 2:
                raise DataError(
                    f"Found invalid map entry, expected length 2 but found :{len(pair)}"
                )
            found[self._value(keys, pair[0])] = self._value(values, pair[1])
        return found


# -- JSON -------------------------------------------------------------------------------------


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _long(text: str) -> int:
    return _wrap(int(text), 64)


_EXACT = json.JSONDecoder(parse_float=Decimal, parse_constant=_constant)


def _float(text: str) -> float:
    """Return a number of 64 bits. Jackson reads decimals, which have no negative zero."""
    return float(text) + 0.0


_PLAIN = json.JSONDecoder(parse_int=_long, parse_float=_float, parse_constant=_constant)


def _parse(text: bytes, *, is_plain: bool = False) -> Any:
    """Return what the bytes say. Like Jackson, ignore what follows the first value."""
    try:
        decoded = bytes(text).decode(json.detect_encoding(text))
        start = decoded.removeprefix("\ufeff").lstrip(" \t\r\n")
        if not start:
            return None
        value, end = (_PLAIN if is_plain else _EXACT).raw_decode(start)
    except (ValueError, RecursionError) as error:
        raise DataError(_BAD_JSON) from error
    if (
        end < len(start)
        and not isinstance(value, dict | list | str)
        and start[end] not in " \t\r\n"
    ):
        raise DataError(_BAD_JSON)
    return value


def _plain_value(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int():
            return _wrap(value, 64)
        case Decimal():
            return float(value) + 0.0
        case list():
            return [_plain_value(each) for each in value]
        case dict():
            return {key: _plain_value(each) for key, each in value.items()}
        case _:
            return value


def _wrap(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return number if -half <= number < half else (number + half) % (2 * half) - half


def _narrow(value: Any, kind: Type) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return 0
    bits = data.INTEGER_BITS[kind]
    return _wrap(_wrap(int(value), max(bits, 32)), bits)


def _double(value: Any, kind: Type) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return 0.0
    try:
        number = float(value) + 0.0
        if kind == Type.FLOAT32:
            unpacked: float = _FLOAT.unpack(_FLOAT.pack(number))[0]
            return unpacked
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return number


def _base64(value: Any, message: str) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise DataError(message) from None


def _finite(text: str) -> str:
    return f'"{text}"' if text.lstrip("-") in ("NaN", "Infinity") else text


def _node(value: Any) -> str:
    """Return the name of Jackson for a kind of JSON."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "BOOLEAN"
        case int() | Decimal():
            return "NUMBER"
        case str():
            return "STRING"
        case list():
            return "ARRAY"
        case _:
            return "OBJECT"


_ACCEPTED: dict[Type, tuple[type, ...]] = {
    **dict.fromkeys(data.INTEGER_BITS, (int,)),
    Type.FLOAT32: (float,),
    Type.FLOAT64: (float,),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: (dict,),
    Type.STRUCT: (Struct,),
}


def _write_logical(name: str, value: Any, wanted: str, write: Callable[[Any], int]) -> int:
    try:
        return write(value)
    except (AttributeError, TypeError):
        raise DataError(
            f"Invalid type for {name}, expected {wanted} but was {type(value).__name__}"
        ) from None


def _write_decimal(schema: Schema, value: Any, is_numeric: bool) -> Any:
    if not isinstance(value, Decimal):
        raise DataError(
            f"Invalid type for Decimal, expected Decimal but was {type(value).__name__}"
        )
    return value if is_numeric else data.decimal_bytes(schema, value)


_TO_JSON: dict[str, Callable[[Schema, Any, bool], Any]] = {
    data.DECIMAL_NAME: _write_decimal,
    data.DATE_NAME: lambda _, v, __: _write_logical("Date", v, "date", data.date_days),
    data.TIME_NAME: lambda _, v, __: _write_logical("Time", v, "time", data.time_ms),
    data.TIMESTAMP_NAME: lambda _, v, __: _write_logical(
        "Timestamp", v, "datetime", data.timestamp_ms
    ),
}


def _read_decimal(schema: Schema, value: Any) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if not isinstance(value, str):
        raise DataError(
            "Invalid type for Decimal, underlying representation should be numeric or bytes but was "
            f"{_node(value)}"
        )
    return data.decimal_of(schema, _base64(value, "Invalid bytes for Decimal field") or b"")


def _read_int(name: str, kind: str, value: Any, bits: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and _wrap(value, bits) == value:
        return value
    raise DataError(
        f"Invalid type for {name}, underlying representation should be {kind} but was {_node(value)}"
    )


_FROM_JSON: dict[str, Callable[[Schema, Any], Any]] = {
    data.DECIMAL_NAME: _read_decimal,
    data.DATE_NAME: lambda _, v: data.days_date(_read_int("Date", "integer", v, 32)),
    data.TIME_NAME: lambda _, v: data.ms_time(_read_int("Time", "integer", v, 32)),
    data.TIMESTAMP_NAME: lambda _, v: data.ms_timestamp(_read_int("Timestamp", "integral", v, 64)),
}
