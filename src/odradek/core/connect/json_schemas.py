"""Schemas of JSON Schema for schemas of Connect, and the reverse, as Confluent's JsonSchemaConverter makes them.

    Connect                            JSON Schema
    int8 to int64, float32, float64    integer or number, with connect.type
    bytes                              string with connect.type bytes, in Base64; a number for Decimal
    struct                             object whose properties have connect.index
    map                                object with additionalProperties and connect.type map
    map with other keys than strings   array of objects with key and value, and connect.type map
    optional                           oneOf null and the type
    struct with the name ...json.OneOf oneOf
    string with ...json.Enum           enum

The name of a schema is its title, the documentation its description. `connect.version` and
`connect.parameters` have the rest. Values are those of JSON, without an envelope.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from odradek.core.connect.avro_schemas import is_plain_map, to_logical, to_physical
from odradek.core.connect.data import (
    DATE_NAME,
    DECIMAL_NAME,
    INTEGER_BITS,
    STRING,
    TIME_NAME,
    TIMESTAMP_NAME,
    Field,
    Schema,
    Struct,
    Type,
    array_schema,
    decimal_bytes,
    decimal_of,
    map_schema,
    type_of,
    validate,
)
from odradek.core.connect.errors import DataError

Json = Any
NAMESPACE = "io.confluent.connect.json"
ENUM, ONE_OF = f"{NAMESPACE}.Enum", f"{NAMESPACE}.OneOf"
KEY, VALUE = "key", "value"
TYPE, VERSION, PARAMETERS, INDEX = (
    f"connect.{each}" for each in ("type", "version", "parameters", "index")
)
_NUMBERS = {
    Type.INT8: ("integer", "int8"),
    Type.INT16: ("integer", "int16"),
    Type.INT32: ("integer", "int32"),
    Type.INT64: ("integer", "int64"),
    Type.FLOAT32: ("number", "float32"),
    Type.FLOAT64: ("number", "float64"),
}
_OF_NUMBERS = {word: kind for kind, (_, word) in _NUMBERS.items()} | {"bytes": Type.BYTES}
_LOGICAL = (DECIMAL_NAME, DATE_NAME, TIME_NAME, TIMESTAMP_NAME)
_FLOATS = (Type.FLOAT32, Type.FLOAT64)


def json_schema(schema: Schema | None, *, is_numeric: bool = False) -> Json | None:
    """Return the schema of JSON Schema; None for values without a schema.

    With `is_numeric` decimals are numbers, otherwise Base64 (`decimal.format`): this is for defaults.
    """
    return None if schema is None else _made(schema, None, is_numeric)


def _made(
    schema: Schema, index: int | None, is_numeric: bool, *, is_branch: bool = False
) -> dict[str, Any]:
    found = _base(schema, is_numeric)
    if schema.type == Type.STRUCT and schema.name == ONE_OF:
        return _with_index(found, index)
    if schema.type == Type.STRUCT and schema.is_optional and not is_branch:
        plain = _made(replace(schema, is_optional=False), None, is_numeric)
        return _with_index({"oneOf": [{"type": "null"}, plain]}, index)
    _add_metadata(found, schema, is_numeric)
    if schema.is_optional and not is_branch:
        return _with_index({"oneOf": [{"type": "null"}, found]}, index)
    return _with_index(found, index)


def _with_index(made: dict[str, Any], index: int | None) -> dict[str, Any]:
    if index is not None:
        made[INDEX] = index
    return made


def _base(schema: Schema, is_numeric: bool) -> dict[str, Any]:
    if schema.type in _NUMBERS:
        kind, word = _NUMBERS[schema.type]
        return {"type": kind, TYPE: word}
    if schema.type == Type.BOOLEAN:
        return {"type": "boolean"}
    if schema.type == Type.STRING:
        if ENUM not in schema.parameter_map:
            return {"type": "string"}
        symbols = [value for name, value in schema.parameters if name.startswith(f"{ENUM}.")]
        return {"enum": symbols}
    if schema.type == Type.BYTES:
        return {"type": "number" if schema.name == DECIMAL_NAME else "string", TYPE: "bytes"}
    if schema.type == Type.STRUCT:
        return _object(schema, is_numeric)
    values = schema.value_schema
    assert values is not None, "lists and maps have one"
    if schema.type == Type.ARRAY:
        return {"type": "array", "items": _made(values, None, is_numeric)}
    if is_plain_map(schema):
        inner = _made(values, None, is_numeric)
        return {"type": "object", TYPE: "map", "additionalProperties": inner}
    keys = schema.key_schema
    assert keys is not None, "maps have one"
    entry = {KEY: _made(keys, 0, is_numeric), VALUE: _made(values, 1, is_numeric)}
    return {"type": "array", TYPE: "map", "items": {"type": "object", "properties": entry}}


def _object(schema: Schema, is_numeric: bool) -> dict[str, Any]:
    if schema.name == ONE_OF:
        start: list[Json] = [{"type": "null"}] if schema.is_optional else []
        branches = [
            _made(replace(e.schema, is_optional=False), e.index, is_numeric, is_branch=True)
            for e in schema.fields
        ]
        return {"oneOf": [*start, *branches]}
    return {
        "type": "object",
        "properties": {e.name: _made(e.schema, e.index, is_numeric) for e in schema.fields},
    }


def _add_metadata(made: dict[str, Any], schema: Schema, is_numeric: bool) -> None:
    if schema.name is not None:
        made["title"] = schema.name
    if schema.version is not None:
        made[VERSION] = schema.version
    if schema.doc is not None:
        made["description"] = schema.doc
    shown = {name: value for name, value in schema.parameters if not name.startswith(NAMESPACE)}
    if shown:
        made[PARAMETERS] = shown
    if schema.default is not None:
        made["default"] = to_json(schema, schema.default, is_numeric=is_numeric)


# -- values -----------------------------------------------------------------------------------


def to_json(schema: Schema | None, value: Any, *, is_numeric: bool = False) -> Json:
    """Return a value for JSON.

    Raises:
        DataError: it does not match its schema.
    """
    if value is None:
        if schema is None or (schema.is_optional and schema.default is None):
            return None
        if schema.default is not None:
            return to_json(schema, schema.default, is_numeric=is_numeric)
        raise DataError(
            "Conversion error: null value for field that is required and has no default value"
        )
    if schema is None:
        return _schemaless(value, is_numeric)
    validate(schema, value)
    if schema.name == DECIMAL_NAME:
        return value if is_numeric else base64.b64encode(decimal_bytes(schema, value)).decode()
    if schema.type == Type.BYTES:
        return base64.b64encode(bytes(value)).decode()
    if schema.type == Type.ARRAY:
        return [to_json(schema.value_schema, each, is_numeric=is_numeric) for each in value]
    if schema.type == Type.MAP:
        pairs = [
            (
                to_json(schema.key_schema, key, is_numeric=is_numeric),
                to_json(schema.value_schema, each, is_numeric=is_numeric),
            )
            for key, each in value.items()
        ]
        return dict(pairs) if is_plain_map(schema) else [{KEY: k, VALUE: v} for k, v in pairs]
    if schema.type != Type.STRUCT:
        return to_physical(schema, value)
    if schema.name == ONE_OF:
        for each in schema.fields:
            if value[each.name] is not None:
                return to_json(each.schema, value[each.name], is_numeric=is_numeric)
        return None
    return {
        each.name: to_json(each.schema, value[each.name], is_numeric=is_numeric)
        for each in schema.fields
    }


def _schemaless(value: Any, is_numeric: bool) -> Json:
    kind = type_of(value)
    if kind is None or kind == Type.STRUCT:
        raise DataError(f"{type(value).__name__} does not have corresponding schema type.")
    if kind == Type.BYTES:
        return base64.b64encode(bytes(value)).decode()
    if kind == Type.ARRAY:
        return [to_json(None, each, is_numeric=is_numeric) for each in value]
    if kind == Type.MAP:
        pairs = [
            (to_json(None, k, is_numeric=is_numeric), to_json(None, v, is_numeric=is_numeric))
            for k, v in value.items()
        ]
        if all(isinstance(key, str) for key in value):
            return dict(pairs)
        return [{KEY: k, VALUE: v} for k, v in pairs]
    return value


def from_json(schema: Schema | None, value: Json) -> Any:
    """Return the value of Connect.

    Raises:
        DataError: it does not match its schema.
    """
    if schema is None:
        return value
    if value is None:
        if schema.default is not None:
            return schema.default
        if schema.is_optional:
            return None
        raise DataError(f"Invalid null value for required {schema.type.name} field")
    if schema.name in _LOGICAL:
        return _logical(schema, value)
    if schema.type == Type.ARRAY:
        return [from_json(schema.value_schema, each) for each in _need(value, list, schema)]
    if schema.type == Type.MAP:
        return _map(schema, value)
    if schema.type == Type.STRUCT:
        return _struct(schema, value)
    if schema.type == Type.BYTES:
        return _bytes(value)
    if schema.type in _FLOATS:
        return float(_need(value, (int, float, Decimal), schema))
    if schema.type == Type.BOOLEAN:
        return _need(value, bool, schema)
    if schema.type == Type.STRING:
        return _need(value, str, schema)
    found = int(_need(value, (int, float, Decimal), schema))
    validate(schema, found)
    return found


def _need(value: Json, kinds: type | tuple[type, ...], schema: Schema) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise DataError(f"Invalid JSON for type {schema.type.name}: {type(value).__name__}")
    return value


def _bytes(value: Json) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise DataError("Invalid bytes field") from None


def _logical(schema: Schema, value: Json) -> Any:
    if schema.name != DECIMAL_NAME:
        return to_logical(schema, _need(value, int, schema))
    if isinstance(value, str):
        return decimal_of(schema, _bytes(value))
    number = _need(value, (int, float, Decimal), schema)
    return number if isinstance(number, Decimal) else Decimal(str(number))


def _map(schema: Schema, value: Json) -> dict[Any, Any]:
    if is_plain_map(schema):
        found = _need(value, dict, schema)
        return {key: from_json(schema.value_schema, each) for key, each in found.items()}
    pairs = {}
    for each in _need(value, list, schema):
        if not isinstance(each, Mapping) or each.keys() != {KEY, VALUE}:
            raise DataError(f"Found invalid map entry: {each!r}")
        key = from_json(schema.key_schema, each[KEY])
        pairs[key] = from_json(schema.value_schema, each[VALUE])
    return pairs


def _struct(schema: Schema, value: Json) -> Struct:
    if schema.name == ONE_OF:
        for each in schema.fields:
            if _may_be(each.schema, value):
                return Struct(schema, {each.name: from_json(each.schema, value)})
        raise DataError(f"Did not find matching oneof field for data: {value!r}")
    found = _need(value, dict, schema)
    return Struct(schema, {e.name: from_json(e.schema, found.get(e.name)) for e in schema.fields})


def _may_be(schema: Schema, value: Json) -> bool:
    """Return whether a value may be of a branch."""
    if isinstance(value, bool) or schema.type == Type.BOOLEAN:
        return isinstance(value, bool) and schema.type == Type.BOOLEAN
    if schema.type in INTEGER_BITS:
        return isinstance(value, int)
    if schema.type in _FLOATS:
        return isinstance(value, int | float | Decimal)
    if schema.type == Type.STRING:
        return isinstance(value, str)
    if schema.type == Type.BYTES:
        return isinstance(value, Decimal)
    if schema.type == Type.ARRAY:
        return isinstance(value, list)
    if schema.type == Type.MAP:
        return isinstance(value, dict | list)
    return isinstance(value, dict) and value.keys() <= {each.name for each in schema.fields}


# -- from JSON Schema -------------------------------------------------------------------------


class _Reader:
    """Makes schemas of Connect from one schema of JSON Schema."""

    def __init__(self, root: Json, others: Mapping[str, Json]) -> None:
        self._root = root
        self._others = others
        """Other schemas by the names in references."""
        self._open: list[str] = []

    def made(self, found: Json, version: int | None = None, *, is_optional: bool = False) -> Schema:
        """Return a schema.

        Raises:
            DataError: Connect has no such type.
        """
        if not isinstance(found, Mapping):
            raise DataError(f"Unsupported schema {found!r}")
        if "$ref" in found:
            return self._referred(str(found["$ref"]), version, is_optional)
        branches = found.get("oneOf") or found.get("anyOf") or _types(found)
        if branches is not None:
            return self._one_of(found, branches, version, is_optional)
        if "allOf" in found:
            return self.made(_one_of_all(found["allOf"]), version, is_optional=is_optional)
        return self._finished(self._base(found), found, version, is_optional)

    def _referred(self, name: str, version: int | None, is_optional: bool) -> Schema:
        if name in self._open:
            raise DataError(f"the schema {name} contains itself, which is not supported")
        file, _, path = name.partition("#")
        found = self._others.get(file) if file else self._root
        for part in filter(None, path.split("/")):
            part = part.replace("~1", "/").replace("~0", "~")
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is None:
            raise DataError(f"the schema refers to {name}, which is not known")
        self._open.append(name)
        try:
            return self.made(found, version, is_optional=is_optional)
        finally:
            self._open.pop()

    def _one_of(
        self, found: Json, branches: list[Json], version: int | None, is_optional: bool
    ) -> Schema:
        others = [each for each in branches if each.get("type") != "null"]
        has_null = len(others) < len(branches)
        if len(branches) == 2 and has_null:
            return self.made(others[0], version, is_optional=True)
        fields = tuple(
            Field(f"{ONE_OF}.field.{index}", index, self.made(each, is_optional=True))
            for index, each in enumerate(others)
        )
        made = Schema(Type.STRUCT, name=ONE_OF, fields=fields)
        return self._finished(made, found, version, is_optional or has_null)

    def _base(self, found: Json) -> Schema:
        if "enum" in found:
            symbols = tuple((f"{ENUM}.{each}", str(each)) for each in found["enum"])
            return Schema(Type.STRING, parameters=((ENUM, ""), *symbols))
        kind, word = found.get("type"), found.get(TYPE)
        if kind == "boolean":
            return Schema(Type.BOOLEAN)
        if kind in ("integer", "number"):
            if word is None:
                return Schema(Type.INT64 if kind == "integer" else Type.FLOAT64)
            if word not in _OF_NUMBERS:
                raise DataError(f"Unsupported type {word}")
            return Schema(_OF_NUMBERS[word])
        if kind == "string":
            return Schema(Type.BYTES if word == "bytes" else Type.STRING)
        if kind == "array":
            return self._array(found, word)
        if kind == "object" or "properties" in found:
            return self._object(found, word)
        raise DataError(f"Unsupported schema type {kind}")

    def _array(self, found: Json, word: str | None) -> Schema:
        items = found.get("items")
        if not isinstance(items, Mapping):
            raise DataError("Array schema did not specify the items type")
        if word == "map" and items.get("type") == "object":
            parts = items.get("properties", {})
            return map_schema(self.made(parts.get(KEY)), self.made(parts.get(VALUE)))
        return array_schema(self.made(items))

    def _object(self, found: Json, word: str | None) -> Schema:
        if word == "map":
            return map_schema(STRING, self.made(found.get("additionalProperties")))
        properties: Mapping[str, Json] = found.get("properties", {})
        order = {
            name: each.get(INDEX, position) if isinstance(each, Mapping) else position
            for position, (name, each) in enumerate(properties.items())
        }
        fields = tuple(
            Field(name, index, self.made(properties[name]))
            for index, name in enumerate(sorted(properties, key=order.__getitem__))
        )
        return Schema(Type.STRUCT, fields=fields)

    def _finished(
        self, schema: Schema, found: Json, version: int | None, is_optional: bool
    ) -> Schema:
        parameters = dict(schema.parameters) | dict(found.get(PARAMETERS) or {})
        schema = replace(
            schema,
            name=found.get("title", schema.name),
            version=found.get(VERSION, version),
            doc=found.get("description"),
            parameters=tuple(parameters.items()),
            is_optional=is_optional,
        )
        if found.get("default") is None:
            return schema
        return schema.with_default(from_json(schema, found["default"]))


def _types(found: Json) -> list[Json] | None:
    """Return the branches of a list of types."""
    if not isinstance(found.get("type"), list):
        return None
    kinds = found["type"]
    return [{**found, "type": each} if each != "null" else {"type": "null"} for each in kinds]


def _one_of_all(parts: list[Json]) -> Json:
    """Return the part of allOf that says what type it is: the others only restrict it."""
    for kinds in (("enum",), ("number", "integer"), ("string",)):
        for each in parts:
            if each.get("type") in kinds or (kinds == ("enum",) and "enum" in each):
                return each
    raise DataError("Unsupported criterion allOf")


def connect_schema(found: Json, others: Mapping[str, Json], version: int | None = None) -> Schema:
    """Return the schema of Connect. `others` are the schemas that references name.

    Raises:
        DataError: Connect has no such type.
    """
    return _Reader(found, others).made(found, version)
