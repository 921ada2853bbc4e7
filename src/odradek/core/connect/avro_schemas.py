"""Schemas of Avro for schemas of Connect, and the reverse, as Confluent's AvroConverter makes them.

    Connect                                 Avro
    int8, int16                             int with connect.type
    struct                                  record with the same name, or ConnectDefault
    map with other keys than strings        array of records MapEntry with key and value
    optional                                union with null, which comes first if there is no default
    Decimal, Date, Time, Timestamp          bytes, int, int, long with logicalType
    none (a value without a schema)         record Anything with a field for each type
    struct with the name ...avro.Union      union
    string with the parameter ...avro.Enum  enum, if enhanced.avro.schema.support is true

Name, version, documentation, parameters and default of a schema are in `connect.name` and so on. Here, a
schema of Avro is what JSON has: a name, a list of branches, or an object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from odradek.core.connect.data import (
    DATE_NAME,
    DECIMAL_NAME,
    SCALE,
    STRING,
    TIME_NAME,
    TIMESTAMP_NAME,
    Schema,
    Type,
    date_days,
    days_date,
    decimal_bytes,
    decimal_of,
    ms_time,
    ms_timestamp,
    time_ms,
    timestamp_ms,
)
from odradek.core.connect.errors import DataError

Avro = Any
NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = "ConnectDefault"
UNION, ENUM, ANYTHING = (f"{NAMESPACE}.{each}" for each in ("Union", "Enum", "Anything"))
MAP_ENTRY = "MapEntry"
KEY, VALUE = "key", "value"
NAME, DOC, VERSION, DEFAULT, PARAMETERS, CONNECT_TYPE, INTERNAL_TYPE = (
    f"connect.{each}"
    for each in ("name", "doc", "version", "default", "parameters", "type", "internal.type")
)
RECORD_DOC, FIELD_DOC, ENUM_DOC = (
    f"{NAMESPACE}.{each}" for each in ("record.doc", "field.doc.", "enum.doc.")
)
FIELD_DEFAULT, ENUM_DEFAULT = f"{NAMESPACE}.field.default", f"{NAMESPACE}.enum.default."
PRECISION, DEFAULT_PRECISION = "connect.decimal.precision", 64

AVRO_TYPES = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
    Type.ARRAY: "array",
    Type.MAP: "map",
}
LOGICAL_TYPES = {
    DATE_NAME: "date",
    TIME_NAME: "time-millis",
    TIMESTAMP_NAME: "timestamp-millis",
    DECIMAL_NAME: "decimal",
}


def _optional(name: str) -> Avro:
    return {"name": name, "type": ["null", name], "default": None}


ANYTHING_SCHEMA: Avro = {
    "type": "record",
    "name": "Anything",
    "namespace": NAMESPACE,
    "fields": [
        *(_optional(each) for each in ("boolean", "bytes", "double", "float", "int", "long")),
        _optional("string"),
        {
            "name": "array",
            "type": ["null", {"type": "array", "items": "Anything"}],
            "default": None,
        },
        {
            "name": "map",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": MAP_ENTRY,
                        "fields": [
                            {"name": KEY, "type": "Anything"},
                            {"name": VALUE, "type": "Anything"},
                        ],
                    },
                },
            ],
            "default": None,
        },
    ],
}
"""The schema of values without a schema."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of the converter."""

    is_enhanced: bool = False
    """`enhanced.avro.schema.support`: enums stay enums, and branches of unions have full names."""
    has_metadata: bool = True
    """`connect.meta.data`: names, versions and so on of Connect are in the schemas."""


def is_plain_map(schema: Schema) -> bool:
    """Return whether a map is one of Avro, too: its keys are strings."""
    key = schema.key_schema
    return key is not None and key.type == Type.STRING and not key.is_optional


def split_name(name: str) -> tuple[str | None, str]:
    """Return the namespace and the last part of a full name."""
    namespace, dot, last = name.rpartition(".")
    return (namespace if dot else None), last


def branch_name(schema: Schema, options: Options) -> str:
    """Return the name of the field that a branch of a union has."""
    if schema.type == Type.STRUCT or ENUM in schema.parameter_map:
        name = schema.name or DEFAULT_NAME
        return name if options.is_enhanced else split_name(name)[1]
    return AVRO_TYPES[schema.type]


class _Writer:
    """Makes one schema of Avro. A type that was defined is only named after that."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._defined: dict[str, Schema] = {}

    def made(self, schema: Schema | None, space: str | None, *, is_branch: bool = False) -> Avro:
        """Return the schema of Avro inside of a namespace. A branch of a union is not optional itself."""
        if schema is None:
            return self._anything(space)
        if schema.name == UNION and schema.type == Type.STRUCT:
            start = ["null"] if schema.is_optional else []
            plain = [replace(each.schema, is_optional=False) for each in schema.fields]
            return [*start, *(self.made(each, space, is_branch=True) for each in plain)]
        found = self._base(schema, space)
        if not schema.is_optional or is_branch:
            return found
        is_first = schema.default is not None and schema.type != Type.STRUCT
        return [found, "null"] if is_first else ["null", found]

    def _anything(self, space: str | None) -> Avro:
        if ANYTHING in self._defined:
            return "Anything" if space == NAMESPACE else ANYTHING
        self._defined[ANYTHING] = STRING
        return ANYTHING_SCHEMA

    def _base(self, schema: Schema, space: str | None) -> Avro:
        if schema.type == Type.STRUCT:
            return self._record(schema, space)
        made: dict[str, Any]
        parameters = schema.parameter_map
        if schema.type == Type.ARRAY:
            made = {"type": "array", "items": self.made(schema.value_schema, space)}
        elif schema.type == Type.MAP and is_plain_map(schema):
            made = {"type": "map", "values": self.made(schema.value_schema, space)}
        elif schema.type == Type.MAP:
            made = {"type": "array", "items": self._map_entry(schema, space)}
        elif self._options.is_enhanced and ENUM in parameters:
            found = self._enum(schema, space)
            if isinstance(found, str):
                return found
            made = found
        else:
            made = {"type": AVRO_TYPES[schema.type]}
        self._add_properties(made, schema)
        return made["type"] if list(made) == ["type"] else made

    def _named(self, full: str, schema: Schema, space: str | None) -> tuple[str, dict[str, Any]]:
        """Return how a type is called in a namespace, and what begins its definition; nothing if it is defined."""
        own, last = split_name(full)
        short = last if own == space else full
        known = self._defined.get(full)
        if known is not None:
            if known != schema:
                raise DataError(f"two different schemas are called {full}")
            return short, {}
        self._defined[full] = schema
        start: dict[str, Any] = {"name": last}
        if own != space:
            start["namespace"] = own or ""
        return short, start

    def _record(self, schema: Schema, space: str | None) -> Avro:
        full = schema.name or f"{NAMESPACE}.{DEFAULT_NAME}"
        plain = replace(schema, is_optional=False, default=None)
        short, start = self._named(full, plain, space)
        if not start:
            return short
        parameters = schema.parameter_map
        made: dict[str, Any] = {"type": "record", **start}
        if RECORD_DOC in parameters:
            made["doc"] = parameters[RECORD_DOC]
        inner = split_name(full)[0]
        made["fields"] = [
            self._field(each.name, each.schema, inner, parameters.get(FIELD_DOC + each.name))
            for each in schema.fields
        ]
        self._add_properties(made, schema)
        return made

    def _field(self, name: str, schema: Schema | None, space: str | None, doc: str | None) -> Avro:
        made: dict[str, Any] = {"name": name, "type": self.made(schema, space)}
        if doc is not None:
            made["doc"] = doc
        if schema is not None and schema.default is not None:
            made["default"] = default_json(schema, schema.default)
        elif schema is not None and schema.is_optional:
            made["default"] = None
        return made

    def _map_entry(self, schema: Schema, space: str | None) -> Avro:
        full = schema.name or f"{NAMESPACE}.{MAP_ENTRY}"
        plain = replace(schema, is_optional=False, default=None)
        short, start = self._named(full, plain, space)
        if not start:
            return short
        inner = split_name(full)[0]
        made: dict[str, Any] = {
            "type": "record",
            **start,
            "fields": [
                self._field(KEY, schema.key_schema, inner, None),
                self._field(VALUE, schema.value_schema, inner, None),
            ],
        }
        if schema.name is not None:
            made[INTERNAL_TYPE] = MAP_ENTRY
        return made

    def _enum(self, schema: Schema, space: str | None) -> Avro:
        parameters = schema.parameter_map
        full = parameters[ENUM]
        plain = replace(schema, is_optional=False, default=None)
        short, start = self._named(full, plain, space)
        if not start:
            return short
        made: dict[str, Any] = {"type": "enum", **start}
        last = split_name(schema.name or f"{NAMESPACE}.{DEFAULT_NAME}")[1]
        if ENUM_DOC + last in parameters:
            made["doc"] = parameters[ENUM_DOC + last]
        symbols = [value for name, value in schema.parameters if name.startswith(f"{ENUM}.")]
        made["symbols"] = symbols
        if ENUM_DEFAULT + last in parameters:
            made["default"] = parameters[ENUM_DEFAULT + last]
        return made

    def _add_properties(self, made: dict[str, Any], schema: Schema) -> None:
        parameters = schema.parameter_map
        is_decimal = schema.type == Type.BYTES and schema.name == DECIMAL_NAME
        if is_decimal:
            made["scale"] = int(parameters.get(SCALE, "0"))
            made["precision"] = int(parameters.get(PRECISION, str(DEFAULT_PRECISION)))
        if self._options.has_metadata:
            self._add_metadata(made, schema)
        if schema.name in LOGICAL_TYPES:
            made["logicalType"] = LOGICAL_TYPES[schema.name]
        made |= {name: value for name, value in schema.parameters if name.startswith("avro")}

    def _add_metadata(self, made: dict[str, Any], schema: Schema) -> None:
        if schema.doc is not None:
            made[DOC] = schema.doc
        if schema.version is not None:
            made[VERSION] = schema.version
        shown = {name: value for name, value in schema.parameters if name != FIELD_DEFAULT}
        if shown:
            made[PARAMETERS] = shown
        if schema.default is not None and FIELD_DEFAULT not in schema.parameter_map:
            made[DEFAULT] = default_json(schema, schema.default)
        if schema.name is not None:
            made[NAME] = schema.name
        if schema.type in (Type.INT8, Type.INT16):
            made[CONNECT_TYPE] = schema.type.value


def avro_schema(schema: Schema | None, options: Options) -> Avro:
    """Return the schema of Avro for a schema of Connect.

    Raises:
        DataError: two parts have the same name and differ.
    """
    return _Writer(options).made(schema, None)


def to_physical(schema: Schema, value: Any) -> Any:
    """Return the number or the bytes of a value of a logical type; other values as they are."""
    match schema.name:
        case n if n == DECIMAL_NAME:
            return decimal_bytes(schema, value)
        case n if n == DATE_NAME:
            return date_days(value)
        case n if n == TIME_NAME:
            return time_ms(value)
        case n if n == TIMESTAMP_NAME:
            return timestamp_ms(value)
    return value


def to_logical(schema: Schema, value: Any) -> Any:
    """The inverse of `to_physical`."""
    match schema.name:
        case n if n == DECIMAL_NAME:
            return decimal_of(schema, value)
        case n if n == DATE_NAME:
            return days_date(value)
        case n if n == TIME_NAME:
            return ms_time(value)
        case n if n == TIMESTAMP_NAME:
            return ms_timestamp(value)
    return value


def default_json(schema: Schema, value: Any) -> Any:
    """Return a default as JSON has it in a schema of Avro."""
    if value is None:
        return None
    found = to_physical(schema, value)
    if schema.type == Type.BYTES:
        return bytes(found).decode("latin-1")
    if schema.type == Type.ARRAY:
        assert schema.value_schema is not None, "arrays have one"
        return [default_json(schema.value_schema, each) for each in found]
    if schema.type == Type.MAP:
        keys, values = schema.key_schema, schema.value_schema
        assert keys is not None, "maps have one"
        assert values is not None, "maps have one"
        if is_plain_map(schema):
            return {key: default_json(values, each) for key, each in found.items()}
        return [[default_json(keys, k), default_json(values, v)] for k, v in found.items()]
    if schema.type == Type.STRUCT:
        return {each.name: default_json(each.schema, found[each.name]) for each in schema.fields}
    return found
