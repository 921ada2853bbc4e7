"""Schemas of Connect for schemas of Avro: the inverse of `avro_schemas`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.core.connect.avro_schemas import (
    ANYTHING,
    CONNECT_TYPE,
    DEFAULT,
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    DOC,
    ENUM,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    INTERNAL_TYPE,
    KEY,
    MAP_ENTRY,
    NAME,
    NAMESPACE,
    PARAMETERS,
    PRECISION,
    RECORD_DOC,
    UNION,
    VALUE,
    VERSION,
    Avro,
    Options,
    split_name,
    to_logical,
)
from odradek.core.connect.data import (
    DATE_NAME,
    DECIMAL_NAME,
    SCALE,
    STRING,
    TIME_NAME,
    TIMESTAMP_NAME,
    Field,
    Schema,
    Struct,
    Type,
    array_schema,
    map_schema,
)
from odradek.core.connect.errors import DataError

_SIMPLE = {
    "boolean": Type.BOOLEAN,
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
}


class _Reader:
    """Makes schemas of Connect from one schema of Avro."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._named: dict[str, Avro] = {}
        self._open: set[str] = set()
        """The records that are being read: one of them inside of itself is a circle."""

    def made(
        self,
        avro: Avro,
        space: str | None,
        *,
        is_optional: bool = False,
        default: Any = None,
        has_default: bool = False,
        version: int | None = None,
    ) -> Schema | None:
        """Return the schema of Connect. `default` is that of a field."""
        if isinstance(avro, str) and avro not in _SIMPLE and avro != "null":
            full = avro if "." in avro or space is None else f"{space}.{avro}"
            avro = self._named.get(full, self._named.get(avro))
            if avro is None:
                raise DataError(f"the schema uses {full}, which it does not define")
        if isinstance(avro, list):
            return self._union(avro, space, default, has_default)
        found = {"type": avro} if isinstance(avro, str) else avro
        if isinstance(found["type"], dict | list):
            return self.made(found["type"], space, is_optional=is_optional, version=version)
        schema = self._base(found, space)
        if schema is None:
            return None
        schema = self._with_metadata(schema, found, version)
        return self._finished(schema, found, is_optional, default, has_default)

    def _need(self, avro: Avro, space: str | None, *, is_optional: bool = False) -> Schema:
        found = self.made(avro, space, is_optional=is_optional)
        if found is None:
            raise DataError("a part of the schema has no type")
        return found

    def _union(
        self, avro: Avro, space: str | None, default: Any, has_default: bool
    ) -> Schema | None:
        others = [each for each in avro if each != "null"]
        is_optional = len(others) < len(avro)
        if len(avro) == 2 and is_optional:
            is_given = has_default and default is not None
            return self.made(
                others[0], space, is_optional=True, default=default, has_default=is_given
            )
        fields: list[tuple[str, Schema]] = []
        for each in others:
            schema = self._need(each, space, is_optional=True)
            name = self._branch(each, space)
            if name in (known for known, _ in fields):
                raise DataError("Multiple union schemas map to the Connect union field name")
            fields.append((name, schema))
        listed = tuple(Field(name, i, schema) for i, (name, schema) in enumerate(fields))
        return Schema(Type.STRUCT, is_optional=is_optional, name=UNION, fields=listed)

    def _branch(self, avro: Avro, space: str | None) -> str:
        if isinstance(avro, str):
            if avro in _SIMPLE:
                return avro
            avro = self._named.get(avro) or self._named[f"{space}.{avro}"]
        kind = avro["type"]
        if kind not in ("record", "enum"):
            return str(kind)
        name = self._full(avro, space) if self._options.is_enhanced else avro["name"]
        return str(name).rpartition(".")[2] if not self._options.is_enhanced else str(name)

    @staticmethod
    def _full(avro: Avro, space: str | None) -> str:
        name = str(avro["name"])
        if "." in name:
            return name
        own = avro.get("namespace", space)
        return f"{own}.{name}" if own else name

    def _base(self, avro: Avro, space: str | None) -> Schema | None:
        kind = avro["type"]
        logical = avro.get("logicalType")
        if kind == "record":
            return self._record(avro, space)
        if kind == "array":
            return self._array(avro, space)
        if kind == "map":
            return map_schema(STRING, self._need(avro["values"], space))
        if kind == "enum":
            return self._enum(avro, space)
        if kind == "null":
            raise DataError("Standalone null schemas are not supported by this converter")
        if kind not in _SIMPLE:
            raise DataError(f"Couldn't translate unsupported schema type {kind}.")
        if kind == "fixed":
            self._named[self._full(avro, space)] = avro
        if kind in ("bytes", "fixed") and logical == "decimal":
            return _decimal(avro)
        if kind == "int" and logical == "date":
            return Schema(Type.INT32, name=DATE_NAME, version=1)
        if kind == "int" and logical == "time-millis":
            return Schema(Type.INT32, name=TIME_NAME, version=1)
        if kind == "long" and logical == "timestamp-millis":
            return Schema(Type.INT64, name=TIMESTAMP_NAME, version=1)
        if kind == "int" and logical is None and avro.get(CONNECT_TYPE) is not None:
            if avro[CONNECT_TYPE] not in ("int8", "int16"):
                raise DataError("Connect type annotation for Avro int field is null")
            return Schema(Type(avro[CONNECT_TYPE]))
        return Schema(_SIMPLE[kind])

    def _record(self, avro: Avro, space: str | None) -> Schema | None:
        full = self._full(avro, space)
        if full == ANYTHING:
            self._named[full] = avro
            return None
        if full in self._open:
            raise DataError(f"the schema {full} contains itself, which is not supported")
        self._named[full] = avro
        self._open.add(full)
        inner = split_name(full)[0]
        parameters: list[tuple[str, str]] = []
        if self._options.has_metadata and avro.get("doc") is not None:
            parameters.append((RECORD_DOC, avro["doc"]))
        fields = []
        for index, each in enumerate(avro["fields"]):
            if self._options.has_metadata and each.get("doc") is not None:
                parameters.append((FIELD_DOC + each["name"], each["doc"]))
            schema = self.made(
                each["type"], inner, default=each.get("default"), has_default="default" in each
            )
            if schema is None:
                raise DataError(f"the field {each['name']} of {full} has no schema")
            fields.append(Field(each["name"], index, schema))
        self._open.discard(full)
        return Schema(Type.STRUCT, fields=tuple(fields), parameters=tuple(parameters))

    def _array(self, avro: Avro, space: str | None) -> Schema:
        items = avro["items"]
        if isinstance(items, dict) and items.get("type") == "record":
            is_own = self._full(items, space) == f"{NAMESPACE}.{MAP_ENTRY}"
            if is_own or items.get(INTERNAL_TYPE) == MAP_ENTRY:
                return self._map(items, space)
        return array_schema(self._need(items, space))

    def _map(self, entry: Avro, space: str | None) -> Schema:
        types = {each["name"]: each["type"] for each in entry["fields"]}
        if types.keys() != {KEY, VALUE}:
            raise DataError(
                "Found map encoded as array of key-value pairs, but array elements do not match the "
                "expected format."
            )
        full = self._full(entry, space)
        self._named[full] = entry
        inner = split_name(full)[0]
        return map_schema(self._need(types[KEY], inner), self._need(types[VALUE], inner))

    def _enum(self, avro: Avro, space: str | None) -> Schema:
        full = self._full(avro, space)
        self._named[full] = avro
        parameters: list[tuple[str, str]] = []
        last = split_name(full)[1]
        if self._options.has_metadata and avro.get("doc") is not None:
            parameters.append((ENUM_DOC + last, avro["doc"]))
        if self._options.has_metadata and avro.get("default") is not None:
            parameters.append((ENUM_DEFAULT + last, avro["default"]))
        parameters.append((ENUM, full))
        parameters += [(f"{ENUM}.{each}", each) for each in avro["symbols"]]
        return Schema(Type.STRING, name=full, parameters=tuple(parameters))

    def _with_metadata(self, schema: Schema, avro: Avro, version: int | None) -> Schema:
        own = avro.get(VERSION, version)
        if own is not None and own >= 0:
            if schema.version is not None and schema.version != own:
                raise DataError(
                    "Mismatched versions: version already added to SchemaBuilder "
                    f"({schema.version}) differs from version in source schema ({own})"
                )
            schema = replace(schema, version=own)
        parameters = dict(schema.parameters)
        if self._options.has_metadata:
            if avro.get(DOC) is not None:
                schema = replace(schema, doc=avro[DOC])
            parameters |= avro.get(PARAMETERS) or {}
        parameters |= {name: str(v) for name, v in avro.items() if name.startswith("avro")}
        name = avro.get(NAME) or self._own_name(avro, schema)
        if name is not None and name != f"{NAMESPACE}.{DEFAULT_NAME}":
            if schema.name is not None and schema.type != Type.STRING and schema.name != name:
                raise DataError(
                    f"Mismatched names: name already added to SchemaBuilder ({schema.name}) differs "
                    f"from name in source schema ({name})"
                )
            schema = replace(schema, name=name)
        return replace(schema, parameters=tuple(parameters.items()))

    def _own_name(self, avro: Avro, schema: Schema) -> str | None:
        if avro["type"] == "record":
            return next(name for name, each in self._named.items() if each is avro)
        return schema.name

    def _finished(
        self, schema: Schema, avro: Avro, is_optional: bool, default: Any, has_default: bool
    ) -> Schema:
        own = avro.get(DEFAULT)
        if has_default and default is not None and own is None:
            flag = (FIELD_DEFAULT, "true")
            schema = replace(schema, parameters=(*schema.parameters, flag))
        given = default if has_default and default is not None else own
        schema = replace(schema, is_optional=is_optional)
        if given is None:
            return schema
        return schema.with_default(json_default(schema, given))


def _decimal(avro: Avro) -> Schema:
    scale = avro.get("scale")
    if not isinstance(scale, int):
        raise DataError("scale must be specified and must be a number.")
    parameters = [(SCALE, str(scale))]
    precision = avro.get("precision")
    if precision is not None and precision != DEFAULT_PRECISION:
        parameters.append((PRECISION, str(precision)))
    return Schema(Type.BYTES, name=DECIMAL_NAME, version=1, parameters=tuple(parameters))


def json_default(schema: Schema, value: Any) -> Any:
    """Return the default that JSON has in a schema of Avro."""
    if value is None:
        return None
    if schema.type == Type.BYTES:
        return to_logical(schema, str(value).encode("latin-1"))
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return float(value)
    if schema.type == Type.ARRAY:
        assert schema.value_schema is not None, "arrays have one"
        return [json_default(schema.value_schema, each) for each in value]
    if schema.type == Type.MAP:
        keys, values = schema.key_schema, schema.value_schema
        assert keys is not None, "maps have one"
        assert values is not None, "maps have one"
        if isinstance(value, Mapping):
            return {key: json_default(values, each) for key, each in value.items()}
        return {json_default(keys, k): json_default(values, v) for k, v in value}
    if schema.type == Type.STRUCT:
        given = {
            each.name: json_default(each.schema, value.get(each.name)) for each in schema.fields
        }
        return Struct(schema, given)
    return to_logical(schema, value)


def connect_schema(avro: Avro, options: Options, version: int | None = None) -> Schema | None:
    """Return the schema of Connect for a schema of Avro; None for values without a schema.

    `version` is that of the schema's subject.

    Raises:
        DataError: Connect has no such type.
    """
    return _Reader(options).made(avro, None, version=version)
