"""Values of Connect as a library of Avro takes them, and the reverse.

Logical types are numbers and bytes there: schemas are passed to the library without `logicalType`, because
it would make other objects of them. A record or an enum of a union is a pair of its name and the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.core.connect.avro_schemas import (
    AVRO_TYPES,
    ENUM,
    KEY,
    NAMESPACE,
    UNION,
    VALUE,
    Avro,
    is_plain_map,
    to_logical,
    to_physical,
)
from odradek.core.connect.data import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    Schema,
    Struct,
    Type,
    type_of,
    validate,
)
from odradek.core.connect.errors import DataError

_ANYTHING = (
    ("boolean", BOOLEAN),
    ("bytes", BYTES),
    ("double", FLOAT64),
    ("float", FLOAT32),
    ("int", INT32),
    ("long", INT64),
    ("string", STRING),
)


def without_logical_types(avro: Avro) -> Avro:
    """Return a schema whose types are those of the bytes."""
    if isinstance(avro, list):
        return [without_logical_types(each) for each in avro]
    if not isinstance(avro, dict):
        return avro
    found = {name: value for name, value in avro.items() if name != "logicalType"}
    for part in ("type", "items", "values"):
        if part in found:
            found[part] = without_logical_types(found[part])
    if "fields" in found:
        found["fields"] = [
            {**each, "type": without_logical_types(each["type"])} for each in found["fields"]
        ]
    return found


def to_avro(schema: Schema | None, value: Any) -> Any:
    """Return a value for the library.

    Raises:
        DataError: it does not match its schema.
    """
    if schema is not None:
        if value is None and not schema.is_optional:
            raise DataError("Found null value for non-optional schema")
        validate(schema, value)
    return _written(schema, value)


def _written(schema: Schema | None, value: Any) -> Any:
    if schema is None:
        return _anything(value)
    if value is None:
        if not schema.is_optional:
            raise DataError("Found null value for non-optional schema")
        return None
    if schema.type == Type.ARRAY:
        return [_written(schema.value_schema, each) for each in value]
    if schema.type == Type.MAP and is_plain_map(schema):
        return {key: _written(schema.value_schema, each) for key, each in value.items()}
    if schema.type == Type.MAP:
        return [
            {KEY: _written(schema.key_schema, k), VALUE: _written(schema.value_schema, v)}
            for k, v in value.items()
        ]
    if schema.type != Type.STRUCT:
        return to_physical(schema, value)
    if schema.name == UNION:
        return _branch(schema, value)
    return {each.name: _written(each.schema, value[each.name]) for each in schema.fields}


def _branch(schema: Schema, value: Struct) -> Any:
    for each in schema.fields:
        found = value[each.name]
        if found is not None:
            written = _written(each.schema, found)
            if each.schema.type == Type.STRUCT:
                return each.schema.name or f"{NAMESPACE}.ConnectDefault", written
            if ENUM in each.schema.parameter_map:
                return each.schema.parameter_map[ENUM], written
            is_list = each.schema.type == Type.MAP and not is_plain_map(each.schema)
            return "array" if is_list else AVRO_TYPES[each.schema.type], written
    return _written(schema, None)


def _anything(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    kind = type_of(value)
    if kind is None or kind == Type.STRUCT:
        raise DataError(f"Unknown Python type for schemaless data: {type(value).__name__}")
    found = value
    if kind == Type.ARRAY:
        found = [_anything(each) for each in value]
    elif kind == Type.MAP:
        found = [{KEY: _anything(k), VALUE: _anything(v)} for k, v in value.items()]
    elif kind == Type.BYTES:
        found = bytes(value)
    return {AVRO_TYPES[kind]: found}


def from_avro(schema: Schema | None, value: Any) -> Any:
    """Return the value of Connect.

    Raises:
        DataError: it does not match its schema.
    """
    if schema is None:
        return _schemaless(value)
    if value is None:
        if not schema.is_optional and schema.default is None:
            raise DataError("Found null value for non-optional schema")
        return None
    if schema.type == Type.STRUCT and schema.name == UNION:
        return _union(schema, value)
    if isinstance(value, tuple):
        value = value[1]
    if schema.type == Type.ARRAY:
        return [from_avro(schema.value_schema, each) for each in value]
    if schema.type == Type.MAP and is_plain_map(schema):
        return {key: from_avro(schema.value_schema, each) for key, each in value.items()}
    if schema.type == Type.MAP:
        return {
            from_avro(schema.key_schema, each[KEY]): from_avro(schema.value_schema, each[VALUE])
            for each in value
        }
    if schema.type == Type.STRUCT:
        return Struct(schema, {e.name: from_avro(e.schema, value[e.name]) for e in schema.fields})
    return to_logical(schema, value)


def _schemaless(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise DataError("Invalid Avro data for schemaless Connect data")
    for name, schema in _ANYTHING:
        if value.get(name) is not None:
            return from_avro(schema, value[name])
    if value.get("array") is not None:
        return [_schemaless(each) for each in value["array"]]
    if value.get("map") is not None:
        return {_schemaless(each[KEY]): _schemaless(each[VALUE]) for each in value["map"]}
    return None


def _union(schema: Schema, value: Any) -> Struct:
    """Return the struct that stands for a union: one of its fields has the value."""
    name = value[0] if isinstance(value, tuple) else None
    for each in schema.fields:
        if name is not None:
            names = (each.schema.name, each.schema.parameter_map.get(ENUM))
            is_it = name in names or (each.schema.name is None and name.endswith(".ConnectDefault"))
        else:
            is_it = ENUM not in each.schema.parameter_map and _may_be(each.schema, value)
        if is_it:
            return Struct(schema, {each.name: from_avro(each.schema, value)})
    raise DataError(f"Did not find matching union field for data: {value!r}")


def _may_be(schema: Schema, value: Any) -> bool:
    if schema.type == Type.STRUCT:
        return False
    if schema.type == Type.MAP:
        return isinstance(value, dict) if is_plain_map(schema) else isinstance(value, list)
    if schema.type == Type.ARRAY:
        return isinstance(value, list)
    if schema.type in (Type.INT32, Type.INT64, Type.INT16, Type.INT8):
        limit = 2**63 if schema.type == Type.INT64 else 2**31
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    expected = {
        Type.BOOLEAN: bool,
        Type.STRING: str,
        Type.BYTES: bytes,
        Type.FLOAT32: float,
        Type.FLOAT64: float,
    }
    return isinstance(value, expected[schema.type])
