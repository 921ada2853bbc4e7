"""Converters with a registry: schemas of Connect become those of Confluent's converters, and come back."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from tests.support.registry_server import RegistryServer, registry_server
from tests.support.run_seed import seeds

from odradek.connect.avro_converter import AvroConverter
from odradek.connect.json_schema_converter import JsonSchemaConverter
from odradek.connect.registry_converter import RegistryConverter
from odradek.core.connect import json_schemas
from odradek.core.connect.avro_reading import connect_schema
from odradek.core.connect.avro_schemas import Options, avro_schema
from odradek.core.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    UTC,
    Schema,
    Struct,
    Type,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from odradek.core.connect.errors import ConfigError, DataError, RetriableError

PLAIN = Options()
MS = 1_700_000_000_123
MOMENT = datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server() as server:
        yield server


def converter(
    server: RegistryServer,
    kind: type[RegistryConverter] = AvroConverter,
    *,
    is_key: bool = False,
    **more: str,
) -> RegistryConverter:
    made = kind()
    settings = {name.replace("_", "."): value for name, value in more.items()}
    made.configure({"schema.registry.url": server.url, **settings}, is_key)
    return made


PERSON = struct_schema(
    [
        ("id", INT64),
        ("name", OPTIONAL_STRING),
        ("age", replace(INT8, default=5)),
        ("born", DATE),
        ("score", replace(FLOAT64.optional(), default=1.5)),
    ],
    name="shop.Person",
    version=2,
)
PERSON_AVRO = {
    "type": "record",
    "name": "Person",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {
            "name": "age",
            "type": {"type": "int", "connect.default": 5, "connect.type": "int8"},
            "default": 5,
        },
        {
            "name": "born",
            "type": {
                "type": "int",
                "connect.version": 1,
                "connect.name": "org.apache.kafka.connect.data.Date",
                "logicalType": "date",
            },
        },
        {
            "name": "score",
            "type": [{"type": "double", "connect.default": 1.5}, "null"],
            "default": 1.5,
        },
    ],
    "connect.version": 2,
    "connect.name": "shop.Person",
}


def test_a_record_has_the_annotations_of_connect() -> None:
    made = avro_schema(PERSON, PLAIN)
    assert made == PERSON_AVRO
    assert list(made) == list(PERSON_AVRO), "the order is that of Avro's library in Java"
    assert connect_schema(made, PLAIN) == PERSON


@pytest.mark.parametrize(
    ("schema", "avro"),
    [
        (INT32, "int"),
        (INT16, {"type": "int", "connect.type": "int16"}),
        (OPTIONAL_INT64, ["null", "long"]),
        (array_schema(STRING), {"type": "array", "items": "string"}),
        (map_schema(STRING, OPTIONAL_INT64), {"type": "map", "values": ["null", "long"]}),
        (
            map_schema(INT32, STRING),
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "MapEntry",
                    "namespace": "io.confluent.connect.avro",
                    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}],
                },
            },
        ),
        (
            decimal_schema(2),
            {
                "type": "bytes",
                "scale": 2,
                "precision": 64,
                "connect.version": 1,
                "connect.parameters": {"scale": "2"},
                "connect.name": "org.apache.kafka.connect.data.Decimal",
                "logicalType": "decimal",
            },
        ),
        (
            struct_schema([("a", BOOLEAN)]),
            {
                "type": "record",
                "name": "ConnectDefault",
                "namespace": "io.confluent.connect.avro",
                "fields": [{"name": "a", "type": "boolean"}],
            },
        ),
    ],
)
def test_schemas(schema: Schema, avro: Any) -> None:
    assert avro_schema(schema, PLAIN) == avro
    assert connect_schema(avro, PLAIN) == schema


def test_without_metadata_only_avros_own_is_left() -> None:
    made = avro_schema(PERSON, Options(has_metadata=False))
    assert "connect" not in json.dumps(made).replace("connect.type", "")
    assert made["fields"][3]["type"] == {"type": "int", "logicalType": "date"}


def test_a_type_is_defined_once() -> None:
    inner = struct_schema([("x", INT32)], name="shop.Point")
    outer = struct_schema([("a", inner), ("b", inner.optional())], name="shop.Line")
    fields = avro_schema(outer, PLAIN)["fields"]
    assert fields[0]["type"]["name"] == "Point"
    assert "namespace" not in fields[0]["type"], "it is that of the record around it"
    assert fields[1]["type"] == ["null", "Point"]
    other = struct_schema([("x", INT64)], name="shop.Point")
    with pytest.raises(DataError, match=r"two different schemas are called shop\.Point"):
        avro_schema(struct_schema([("a", inner), ("b", other)], name="shop.Line"), PLAIN)


COLOR: dict[str, Any] = {
    "type": "enum",
    "name": "Color",
    "namespace": "shop",
    "symbols": ["RED", "GREEN"],
}
CHOICE: dict[str, Any] = {
    "type": "record",
    "name": "Choice",
    "namespace": "shop",
    "fields": [
        {"name": "color", "type": COLOR},
        {
            "name": "value",
            "type": [
                "null",
                "string",
                "long",
                {
                    "type": "record",
                    "name": "Point",
                    "fields": [{"name": "x", "type": "int"}],
                },
            ],
            "default": None,
        },
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "text", "type": "string", "default": "none"},
    ],
}


@pytest.mark.parametrize("is_enhanced", [False, True])
def test_enums_and_unions(registry: RegistryServer, is_enhanced: bool) -> None:
    registry.add("t-value", json.dumps(CHOICE))
    made = converter(registry, enhanced_avro_schema_support=str(is_enhanced).lower())
    schema = connect_schema(CHOICE, Options(is_enhanced=is_enhanced))
    assert schema is not None
    color, value, when, text = (each.schema for each in schema.fields)
    assert color.type == Type.STRING
    assert color.parameter_map["io.confluent.connect.avro.Enum"] == "shop.Color"
    assert value.name == "io.confluent.connect.avro.Union"
    assert value.is_optional
    point = "shop.Point" if is_enhanced else "Point"
    assert [each.name for each in value.fields] == ["string", "long", point]
    assert when == INT64, "microseconds are no type of Connect"
    assert text.default == "none"
    found = value.fields[2].schema
    rows = [
        {"color": "RED", "value": None, "when": 5},
        {"color": "GREEN", "value": Struct(value, {"string": "a"}), "when": 6},
        {"color": "GREEN", "value": Struct(value, {"long": 7}), "when": 7, "text": "b"},
        {"color": "RED", "value": Struct(value, {point: Struct(found, {"x": 1})}), "when": 8},
    ]
    for row in rows:
        data = made.from_connect("t", schema, Struct(schema, row))
        back = made.to_connect("t", data)
        assert isinstance(back.value, Struct)
        for name in ("color", "when"):
            assert back.value[name] == row[name]
        assert back.value["text"] == row.get("text", "none")
        written = back.value["value"]
        shown = (
            None if written is None else {f.name: v for f, v in written.items() if v is not None}
        )
        given: Any = row["value"]
        wanted = None if given is None else {f.name: v for f, v in given.items() if v is not None}
        assert repr(shown) == repr(wanted)


def test_values_without_a_schema(registry: RegistryServer) -> None:
    made = converter(registry)
    value = {"a": [1, "x", None, 2.5], 7: True, "b": b"\x00\xff"}
    back = made.to_connect("t", made.from_connect("t", None, value))
    assert back == (None, value)
    assert made.from_connect("t", None, None) is None
    assert made.to_connect("t", None) == (None, None)


def random_schema(r: random.Random, depth: int = 0) -> Schema:
    simple = [INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES]
    simple += [DATE, TIME, TIMESTAMP, decimal_schema(2)]
    kind = r.randrange(16 if depth < 3 else 12)
    if kind < 12:
        found = r.choice(simple)
    elif kind == 12:
        found = array_schema(random_schema(r, depth + 1))
    elif kind == 13:
        keys = r.choice([STRING, INT32, STRING.optional()])
        name = None if keys == STRING else f"entry{r.randrange(10**9)}"
        found = map_schema(keys, random_schema(r, depth + 1), name=name)
    else:
        fields = [(f"f{i}", random_schema(r, depth + 1)) for i in range(r.randrange(1, 5))]
        found = struct_schema(fields, name=f"n.s{r.randrange(10**9)}")
    if r.random() < 0.2 and found.type.is_primitive and found.name is None:
        found = replace(found, default=random_value(r, found))
    if r.random() < 0.2 and found.name is None:
        found = replace(found, doc="why", version=3, parameters=(("p", "q"),))
    return found.optional() if r.random() < 0.3 else found


def random_value(r: random.Random, schema: Schema) -> Any:
    if schema.is_optional and r.random() < 0.3 and schema.default is None:
        return None
    bits = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}.get(schema.type)
    if schema.name == DATE.name:
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=r.randrange(-9_000, 30_000))
    if schema.name == TIME.name:
        return datetime.time(r.randrange(24), r.randrange(60), 1, r.randrange(1_000) * 1_000)
    if schema.name == TIMESTAMP.name:
        return MOMENT + datetime.timedelta(milliseconds=r.randrange(10**12))
    if schema.name is not None and schema.name.endswith("Decimal"):
        return Decimal(r.randrange(-(10**9), 10**9)).scaleb(-2)
    if bits is not None:
        return r.choice([0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))])
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return r.choice([0.0, 1.5, -2.25, 1024.0])
    if schema.type == Type.BOOLEAN:
        return r.random() < 0.5
    if schema.type == Type.STRING:
        return r.choice(["", "a", "ü€𝄞"])
    if schema.type == Type.BYTES:
        return r.choice([b"", b"\x00\xff"])
    if schema.type == Type.ARRAY:
        assert schema.value_schema is not None
        return [random_value(r, schema.value_schema) for _ in range(r.randrange(3))]
    if schema.type == Type.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        pairs = range(r.randrange(3))
        return {
            random_value(r, schema.key_schema): random_value(r, schema.value_schema) for _ in pairs
        }
    return Struct(schema, {e.name: random_value(r, e.schema) for e in schema.fields})


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter])
def test_random_data_comes_back(registry: RegistryServer, kind: type[RegistryConverter]) -> None:
    r = random.Random(seeds(1)[0])
    made = converter(registry, kind, value_subject_name_strategy=_strategy("TopicName"))
    for number in range(200):
        schema = replace(random_schema(r), version=4, is_optional=False)
        if schema.name in (DATE.name, TIME.name, TIMESTAMP.name, decimal_schema(2).name):
            schema = replace(schema, version=1)
        value = random_value(r, schema)
        data = made.from_connect(f"t{number}", schema, value)
        back = made.to_connect(f"t{number}", data)
        if kind is JsonSchemaConverter or schema.type != Type.MAP or schema.key_schema == STRING:
            assert back.schema == schema
        assert repr(back.value) == repr(value)


def _strategy(name: str) -> str:
    return f"io.confluent.kafka.serializers.subject.{name}Strategy"


def test_subjects_and_versions(registry: RegistryServer) -> None:
    keys = converter(registry, is_key=True, key_subject_name_strategy=_strategy("TopicRecordName"))
    schema = struct_schema([("a", STRING)], name="shop.Key")
    data = keys.from_connect("orders", schema, Struct(schema, {"a": "x"}))
    assert list(registry.subjects) == ["orders-shop.Key"]
    back = keys.to_connect("orders", data)
    assert back.schema == replace(schema, version=1), "the version is that in the subject"


def test_errors_name_the_subject_and_the_registry(registry: RegistryServer) -> None:
    made = converter(registry, auto_register_schemas="false")
    with pytest.raises(DataError, match="t-value") as failed:
        made.from_connect("t", STRING, "a")
    assert registry.url in str(failed.value)
    with pytest.raises(DataError, match="Failed to deserialize data for topic t to Avro"):
        made.to_connect("t", b"plain text")
    with pytest.raises(DataError, match="has no schema 77"):
        made.to_connect("t", b"\x00\x00\x00\x00\x4dx")
    with pytest.raises(DataError, match="null value for non-optional"):
        converter(registry).from_connect("t", STRING, None)
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        AvroConverter().configure({}, False)
    with pytest.raises(ConfigError, match="could not be found"):
        converter(registry, value_subject_name_strategy="Nope")


def test_a_registry_that_does_not_respond_may_come_back() -> None:
    made = AvroConverter()
    made.configure(
        {"schema.registry.url": "http://127.0.0.1:9", "schema.registry.timeout.ms": "1"}, False
    )
    with pytest.raises(RetriableError, match=r"127\.0\.0\.1:9"):
        made.from_connect("t", STRING, "a")


PERSON_JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "connect.type": "int64", "connect.index": 0},
        "name": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
        "age": {"type": "integer", "connect.type": "int8", "default": 5, "connect.index": 2},
        "born": {
            "type": "integer",
            "connect.type": "int32",
            "title": "org.apache.kafka.connect.data.Date",
            "connect.version": 1,
            "connect.index": 3,
        },
        "score": {
            "oneOf": [
                {"type": "null"},
                {"type": "number", "connect.type": "float64", "default": 1.5},
            ],
            "connect.index": 4,
        },
    },
    "title": "shop.Person",
    "connect.version": 2,
}


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        (PERSON, PERSON_JSON),
        (
            map_schema(STRING, INT32),
            {
                "type": "object",
                "connect.type": "map",
                "additionalProperties": {"type": "integer", "connect.type": "int32"},
            },
        ),
        (
            map_schema(BOOLEAN, STRING),
            {
                "type": "array",
                "connect.type": "map",
                "items": {
                    "type": "object",
                    "properties": {
                        "key": {"type": "boolean", "connect.index": 0},
                        "value": {"type": "string", "connect.index": 1},
                    },
                },
            },
        ),
        (BYTES, {"type": "string", "connect.type": "bytes"}),
    ],
)
def test_schemas_of_json(schema: Schema, wanted: Any) -> None:
    assert json_schemas.json_schema(schema) == wanted
    assert json_schemas.connect_schema(wanted, {}) == schema


FOREIGN = {
    "definitions": {"point": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    "type": "object",
    "properties": {
        "at": {"$ref": "#/definitions/point"},
        "other": {"$ref": "other.json"},
        "color": {"enum": ["RED", "GREEN"]},
        "any": {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        "maybe": {"type": ["null", "boolean"]},
        "short": {"allOf": [{"maxLength": 3}, {"type": "string"}]},
    },
}


def test_json_schemas_of_others() -> None:
    schema = json_schemas.connect_schema(FOREIGN, {"other.json": {"type": "number"}}, 7)
    assert schema.version == 7
    at, other, color, either, maybe, short = (each.schema for each in schema.fields)
    assert at == struct_schema([("x", INT64)])
    assert other == FLOAT64
    assert color.parameter_map["io.confluent.connect.json.Enum.RED"] == "RED"
    assert either.name == "io.confluent.connect.json.OneOf"
    assert either.is_optional
    assert maybe == BOOLEAN.optional()
    assert short == STRING
    row = {"at": {"x": 1}, "other": 2.5, "color": "RED", "any": 7, "short": "abc"}
    found = json_schemas.from_json(schema, row)
    assert found["at"]["x"] == 1
    assert found["any"]["io.confluent.connect.json.OneOf.field.1"] == 7
    assert found["maybe"] is None
    later, number = {"type": "string", "connect.index": 1}, {"type": "number"}
    mixed = {"type": "object", "properties": {"later": later, "number": number}}
    names = [each.name for each in json_schemas.connect_schema(mixed, {}).fields]
    assert names == ["later", "number"], "two properties may have the same place"
    circle = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    with pytest.raises(DataError, match="contains itself"):
        json_schemas.connect_schema(circle, {})
    with pytest.raises(DataError, match="refers to nowhere"):
        json_schemas.connect_schema({"$ref": "nowhere"}, {})


def test_json_on_the_wire(registry: RegistryServer) -> None:
    made = converter(registry, JsonSchemaConverter, decimal_format="numeric")
    schema = struct_schema([("price", decimal_schema(2)), ("raw", BYTES.optional())])
    value = Struct(schema, {"price": Decimal("12.50"), "raw": b"\x01"})
    data = made.from_connect("t", schema, value)
    assert data == b'\x00\x00\x00\x00\x01{"price":12.50,"raw":"AQ=="}'
    assert made.to_connect("t", data).value == Struct(
        replace(schema, version=1), {"price": Decimal("12.50"), "raw": b"\x01"}
    )
    assert made.from_connect("t", OPTIONAL_STRING, None) == b"\x00\x00\x00\x00\x02null"
    assert made.from_connect("t", None, None) is None
    with pytest.raises(DataError, match="without a schema"):
        made.from_connect("t", None, {"a": 1})
    with pytest.raises(DataError, match="it is no JSON"):
        made.to_connect("t", b"\x00\x00\x00\x00\x02nul")
