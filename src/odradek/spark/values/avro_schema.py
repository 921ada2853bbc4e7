"""Reads schemas of Avro, and makes schemas for columns of Spark.

`avro_shapes` describes how the types of a schema are converted. Times of day and durations stay
numbers and bytes, as in Spark.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.client.serializers import avro_library
from odradek.client.serializers.avro_library import AvroSchemaError
from odradek.spark.values.avro_shapes import (
    MILLI,
    Bytes,
    Decimals,
    Field,
    Lists,
    Maps,
    Shape,
    Structs,
    Times,
    raw_struct,
    struct_type,
)
from odradek.spark.values.decimals import PRECISION_MAX

Schema = Any
"""A schema as JSON has it: a name, a list of branches, or an object."""

PRIMITIVES: dict[str, tuple[pa.DataType, DataType, tuple[type[DataType], ...]]] = {
    "boolean": (pa.bool_(), BooleanType(), (BooleanType,)),
    "int": (pa.int32(), IntegerType(), (ByteType, ShortType, IntegerType)),
    "long": (pa.int64(), LongType(), (ByteType, ShortType, IntegerType, LongType)),
    "float": (pa.float32(), FloatType(), (FloatType,)),
    "double": (pa.float64(), DoubleType(), (FloatType, DoubleType)),
    "string": (pa.string(), StringType(), (StringType,)),
    "bytes": (pa.binary(), BinaryType(), (BinaryType,)),
}
TIMES: dict[str, tuple[int, type[DataType]]] = {
    "timestamp-millis": (MILLI, TimestampType),
    "timestamp-micros": (1, TimestampType),
    "local-timestamp-millis": (MILLI, TimestampNTZType),
    "local-timestamp-micros": (1, TimestampNTZType),
}
WIDENED = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
"""Unions of two numbers, which are one column of the larger type, as in Spark."""


@functools.lru_cache(maxsize=1000)
def parse(text: str, references: tuple[str, ...] = ()) -> Shape:
    """Return the shape of a schema. `references` are schemas of types that it names.

    Raises:
        AvroSchemaError: the text is no schema, or has an unsupported type.
    """
    parsed, named = avro_library.parsed(text, references)
    shape = _Builder(named).shape(parsed, "odradek")
    library = fastavro.parse_schema(shape.avro, _ignore_default_error=True)
    return dataclasses.replace(shape, avro=library)


class _Builder:
    """Makes the shapes of one schema."""

    def __init__(self, named: Mapping[str, Schema]) -> None:
        self._named = named
        self._made: dict[str, Shape] = {}
        self._open: list[str] = []

    def shape(self, schema: Schema, path: str) -> Shape:
        """Return the shape of a type. `path` is part of the names of its unions and maps."""
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str):
            return self._primitive(schema, {}) if schema in PRIMITIVES else self._by_name(schema)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.shape(kind, path)
        match kind:
            case "record" | "error":
                return self._record(schema)
            case "enum":
                return self._define(
                    Shape(
                        _without(schema, "logicalType"),
                        f"enum {schema['name']}",
                        pa.string(),
                        StringType(),
                        (StringType,),
                    ),
                    schema,
                )
            case "fixed":
                return self._define(self._fixed(schema), schema)
            case "array":
                element = self.shape(schema["items"], path)
                return Lists(
                    {"type": "array", "items": element.avro},
                    "array",
                    pa.list_(element.raw),
                    ArrayType(element.spark),
                    (ArrayType,),
                    element=element,
                )
            case "map":
                return self._map(schema, path)
            case _ if kind in PRIMITIVES:
                return self._primitive(kind, schema)
            case _:
                return self.shape(kind, path)

    def _by_name(self, name: str) -> Shape:
        if name in self._open:
            raise AvroSchemaError(
                f"the type {name} contains itself: columns of Spark cannot be recursive"
            )
        if name in self._made:
            return dataclasses.replace(self._made[name], avro=name)
        if name not in self._named:
            raise AvroSchemaError(f"the type {name} has no counterpart in Spark")
        return self.shape(self._named[name], name)

    def _define(self, shape: Shape, schema: Schema) -> Shape:
        self._made[schema["name"]] = shape
        return shape

    def _primitive(self, kind: str, schema: Mapping[str, Any]) -> Shape:
        raw, spark, accepts = PRIMITIVES[kind]
        logical = schema.get("logicalType")
        if kind == "int" and logical == "date":
            return Shape("int", "date", pa.int32(), DateType(), (DateType,))
        if kind == "long" and logical in TIMES:
            unit, time = TIMES[logical]
            return Times("long", logical, raw, time(), (time,), unit=unit)
        if kind == "bytes":
            if logical == "decimal":
                return Decimals("bytes", "decimal", raw, _decimal(schema), (DecimalType,))
            return Bytes("bytes", "bytes", raw, spark, accepts)
        return Shape(kind, kind, raw, spark, accepts)

    def _fixed(self, schema: Schema) -> Shape:
        plain = _without(schema, "logicalType", "precision", "scale")
        size = schema["size"]
        if schema.get("logicalType") == "decimal":
            spark = _decimal(schema)
            return Decimals(plain, "decimal", pa.binary(size), spark, (DecimalType,), size=size)
        return _Fixed(plain, f"fixed({size})", pa.binary(size), BinaryType(), (BinaryType,))

    def _map(self, schema: Schema, path: str) -> Shape:
        value = self.shape(schema["values"], f"{path}.values")
        entry = {
            "type": "record",
            "name": _name(path, "entry"),
            "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": value.avro}],
        }
        return Maps(
            {"type": "array", "items": entry},
            "map",
            pa.list_(pa.struct([("key", pa.string()), ("value", value.raw)])),
            MapType(StringType(), value.spark),
            (MapType,),
            value=value,
        )

    def _record(self, schema: Schema) -> Shape:
        name = schema["name"]
        self._open.append(name)
        fields, library = [], []
        for each in schema["fields"]:
            shape = self.shape(each["type"], f"{name}.{each['name']}")
            fields.append(Field(each["name"], shape, "default" in each))
            given = {**each, "type": shape.avro}
            if "default" in each:
                given["default"] = _default(shape, each)
            library.append(given)
        self._open.pop()
        record = {**_without(schema, "logicalType"), "fields": library}
        return self._define(
            Structs(
                record,
                f"record {name}",
                raw_struct(fields),
                struct_type(fields),
                (StructType,),
                fields=fields,
            ),
            schema,
        )

    def _union(self, branches: list[Schema], path: str) -> Shape:
        others = [each for each in branches if _type_name(each) != "null"]
        if not others:
            raise AvroSchemaError("the type null has no counterpart in Spark")
        kinds = frozenset(_type_name(each) for each in others)
        is_plain = all(isinstance(each, str) for each in others)
        if len(others) == 1:
            shape = self.shape(others[0], path)
            library = [("null" if _type_name(e) == "null" else shape.avro) for e in branches]
        elif kinds in WIDENED and is_plain:
            shape, library = self._primitive(WIDENED[kinds], {}), branches
        else:
            return self._several(branches, others, path)
        return dataclasses.replace(shape, avro=library, is_nullable=len(others) < len(branches))

    def _several(self, branches: list[Schema], others: list[Schema], path: str) -> Shape:
        fields: list[Field] = []
        library: list[Schema] = []
        for each in branches:
            if _type_name(each) == "null":
                library.append("null")
                continue
            member = f"member{len(fields)}"
            shape = self.shape(each, f"{path}.{member}")
            # Fields of writers and readers are matched by alias, if their branches differ in order.
            field = {
                "name": member,
                "type": shape.avro,
                "aliases": [f"member{n}" for n in range(len(others))],
            }
            record = {"type": "record", "name": _name(path, _type_name(each)), "fields": [field]}
            library.append(record)
            fields.append(Field(member, shape, has_default=False))
        return Structs(
            library,
            "union",
            raw_struct(fields),
            struct_type(fields),
            (StructType,),
            is_nullable=len(others) < len(branches),
            fields=fields,
            is_union=True,
        )


@dataclasses.dataclass(frozen=True)
class _Fixed(Bytes):
    """Bytes of a fixed size."""

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        return column  # the library checks the sizes


def _default(shape: Shape, field: Mapping[str, Any]) -> Any:
    """Return the default value of a field, as the schema for the library has it."""
    value = field["default"]
    return None if value is None else shape.default(value)


def _decimal(schema: Mapping[str, Any]) -> DecimalType:
    precision, scale = schema["precision"], schema.get("scale", 0)
    if not 0 < precision <= PRECISION_MAX or not 0 <= scale <= precision:
        raise AvroSchemaError(
            f"decimals of precision {precision} and scale {scale} have no counterpart in Spark: "
            f"the largest precision is {PRECISION_MAX}"
        )
    return DecimalType(precision, scale)


def _without(schema: Schema, *names: str) -> dict[str, Any]:
    left: dict[str, Any] = {key: each for key, each in schema.items() if key not in names}
    return {key: each for key, each in left.items() if not key.startswith("__")}


def _type_name(schema: Schema) -> str:
    if isinstance(schema, str):
        return schema
    named: str = schema.get("name") or schema["type"]
    return named


def _name(*parts: str) -> str:
    return re.sub(r"\W", "_", "_".join(("odradek", *parts)))


def schema_of(found: DataType, name: str = "topLevelRecord") -> str:
    """Return a schema for a column of Spark. Fields may be null, with null as their default.

    Raises:
        AvroSchemaError: a type has no counterpart in Avro.
    """
    return json.dumps(_of(found, name))


SIMPLE: dict[type[DataType], Schema] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def _of(found: DataType, path: str) -> Schema:
    if type(found) in SIMPLE:
        return SIMPLE[type(found)]
    if isinstance(found, DecimalType):
        digits = {"precision": found.precision, "scale": found.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if isinstance(found, ArrayType):
        return {"type": "array", "items": _nullable(found.elementType, path)}
    if isinstance(found, MapType) and isinstance(found.keyType, StringType):
        return {"type": "map", "values": _nullable(found.valueType, path)}
    if isinstance(found, StructType):
        fields = [
            {
                "name": each.name,
                "type": _nullable(each.dataType, f"{path}.{each.name}"),
                "default": None,
            }
            for each in found.fields
        ]
        return {"type": "record", "name": path, "fields": fields}
    raise AvroSchemaError(f"the type {found.simpleString()} of {path} has no counterpart in Avro")


def _nullable(found: DataType, path: str) -> Schema:
    return ["null", _of(found, path)]
