"""Avro to columns and back: as the library has it, value by value, and as Spark's `from_avro`."""

from __future__ import annotations

import io
import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from odradek.spark.values import avro_schema, decimals, formats
from odradek.spark.values.avro import AvroDecoder, AvroEncoder, AvroText
from odradek.spark.values.avro_schema import AvroSchemaError, parse
from odradek.spark.values.settings import Typed

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "z", "type": "long"}]}
FIELDS = [
    ("i", "int"),
    ("l", "long"),
    ("f", "float"),
    ("x", "double"),
    ("b", "boolean"),
    ("s", "string"),
    ("y", "bytes"),
    ("o", ["null", "string"]),
    ("p", [INNER, "null"]),
    ("u", ["null", "int", "string", "Inner"]),
    ("w", ["int", "long"]),
    ("v", ["float", "double"]),
    ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    ("g", {"type": "fixed", "name": "G", "size": 3}),
    ("a", {"type": "array", "items": ["null", "Inner"]}),
    ("m", {"type": "map", "values": {"type": "map", "values": ["null", "int"]}}),
    ("c", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}),
    ("h", {"type": "fixed", "name": "H", "size": 9, "logicalType": "decimal", "precision": 20}),
    ("t", {"type": "long", "logicalType": "timestamp-millis"}),
    ("k", {"type": "long", "logicalType": "timestamp-micros"}),
    ("n", ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]),
    ("d", {"type": "int", "logicalType": "date"}),
    ("q", {"type": "string", "logicalType": "uuid"}),
    ("r", {"type": "int", "logicalType": "time-millis"}),
]
RECORD = {
    "type": "record",
    "name": "Row",
    "namespace": "test",
    "fields": [{"name": name, "type": kind} for name, kind in FIELDS],
}
TYPE = (
    "struct<i:int,l:bigint,f:float,x:double,b:boolean,s:string,y:binary,o:string,p:struct<z:bigint>,"
    "u:struct<member0:int,member1:string,member2:struct<z:bigint>>,w:bigint,v:double,e:string,"
    "g:binary,a:array<struct<z:bigint>>,m:map<string,map<string,int>>,c:decimal(20,2),"
    "h:decimal(20,0),t:timestamp,k:timestamp,n:timestamp_ntz,d:date,q:string,r:int>"
)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
inner = st.fixed_dictionaries({"z": longs})
singles = st.floats(width=32, allow_nan=False)
times = st.integers(-(10**15), 10**15)
unscaled = st.integers(-(10**20) + 1, 10**20 - 1)
row = st.fixed_dictionaries(
    {
        "i": ints,
        "l": longs,
        "f": singles,
        "x": st.floats(allow_nan=False),
        "b": st.booleans(),
        "s": text,
        "y": st.binary(max_size=4),
        "o": st.none() | text,
        "p": st.none() | inner,
        "u": st.none() | ints | text | inner,
        "w": longs,
        "v": singles,
        "e": st.sampled_from("AB"),
        "g": st.binary(min_size=3, max_size=3),
        "a": st.lists(st.none() | inner, max_size=3),
        "m": st.dictionaries(text, st.dictionaries(text, st.none() | ints, max_size=2), max_size=2),
        "c": unscaled,
        "h": unscaled,
        "t": st.integers(-(10**12), 10**12),
        "k": times,
        "n": st.none() | times,
        "d": st.integers(-700_000, 2_000_000),
        "q": st.uuids().map(str),
        "r": ints,
    }
)


def bytes_of(number, size=None):
    size = size or (number + (number < 0)).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


PLAIN = json.loads(
    json.dumps(RECORD)
    .replace('"logicalType": "decimal"', '"x": 0')
    .replace("logicalType", "ignored")
)
LIBRARY = fastavro.parse_schema(PLAIN)
SCHEMA = AvroText(json.dumps(RECORD))
KIND = formats.arrow_type(SCHEMA.shape.spark)


def one(value, schema=LIBRARY):
    """Encode one value by the library. Numbers stand for decimals and times."""
    if value is None:
        return None
    if schema is LIBRARY:
        value = value | {"c": bytes_of(value["c"]), "h": bytes_of(value["h"], 9)}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def expected(value):
    if value is None:
        return None
    u = dict.fromkeys(("member0", "member1", "member2"))
    kinds = {int: "member0", str: "member1", dict: "member2"}
    if value["u"] is not None:
        u[kinds[type(value["u"])]] = value["u"]
    utc = pa.timestamp("us", "UTC")
    micros = {"t": value["t"] * 1000, "k": value["k"]}
    found = {
        **value,
        "u": None if value["u"] is None else u,
        "m": [(key, list(each.items())) for key, each in value["m"].items()],
        "c": Decimal(value["c"]).scaleb(-2),
        "h": Decimal(value["h"]),
        **{name: pa.scalar(each, utc).as_py() for name, each in micros.items()},
        "d": pa.scalar(value["d"], pa.date32()).as_py(),
    }
    if value["n"] is not None:
        found["n"] = pa.scalar(value["n"], pa.timestamp("us")).as_py()
    return found


def test_the_types_are_those_of_from_avro():
    assert SCHEMA.shape.spark.simpleString() == TYPE


@settings(max_examples=10)
@given(st.lists(st.none() | row, max_size=8), st.data())
def test_values_are_decoded_and_encoded_as_one_by_one(rows, data):
    values = [one(each) for each in rows]
    wanted = [expected(each) for each in rows]
    for place, value in enumerate(values):
        harm = data.draw(st.sampled_from(["", "", "cut", "longer"])) if value else ""
        if harm:
            values[place] = value[:-1] if harm == "cut" else value + b"\0"
            wanted[place] = None
    bad = [n for n, value in enumerate(values) if value is not None and wanted[n] is None]
    decoder = pickle.loads(pickle.dumps(AvroDecoder(SCHEMA, KIND)))
    decoded = decoder.decode(pa.array(values, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.to_pylist() == wanted
    assert decoded.bad.nonzero()[0].tolist() == sorted(decoded.reasons) == bad
    encoded = AvroEncoder("value", SCHEMA, b"\0pre").encode(decoded.rows)
    good = [None if wanted[n] is None else b"\0pre" + value for n, value in enumerate(values)]
    assert encoded.to_pylist() == good
    assert AvroEncoder("value", SCHEMA).encode(decoded.rows.slice(1)).to_pylist() == [
        each and each[4:] for each in good[1:]
    ]


@settings(max_examples=10)
@given(st.lists(st.binary(max_size=30), max_size=8))
def test_any_bytes_are_decoded_or_have_a_reason(values):
    decoded = AvroDecoder(SCHEMA, KIND).decode(pa.array(values, pa.binary()))
    assert sorted(decoded.reasons) == decoded.bad.nonzero()[0].tolist()
    assert decoded.rows.is_null().to_pylist() == decoded.bad.tolist()


@settings(max_examples=10)
@given(st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1)), st.integers(0, 20))
def test_decimals(numbers, zeros):
    kind = pa.decimal128(38, 3)
    values = [None if n is None else Decimal(n) for n in numbers]
    exact = pa.array(
        [v if v is None else Decimal((v < 0, v.as_tuple().digits, -3)) for v in values], kind
    )
    short = [None if n is None else bytes_of(n) for n in numbers]
    assert decimals.encoded(exact).to_pylist() == short
    assert decimals.decoded(pa.array(short, pa.binary()), kind).equals(exact)
    longer = [
        None if n is None else (b"\xff" if n < 0 else b"\0") * zeros + bytes_of(n) for n in numbers
    ]
    assert decimals.decoded(pa.array(longer, pa.binary()), kind).equals(exact)
    fixed = decimals.encoded(exact, 16 + zeros)
    assert decimals.decoded(fixed.cast(pa.binary()), kind).equals(exact)
    assert decimals.decoded(pa.array([b""], pa.binary()), kind).to_pylist() == [0]


def test_numbers_that_do_not_fit():
    schema = '{"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}'
    text = AvroText(schema)
    decoder = AvroDecoder(text, formats.arrow_type(text.shape.spark))
    values = [one(bytes_of(n), {"type": "bytes"}) for n in (999, 1000, -999, 10**45)]
    decoded = decoder.decode(pa.array(values, pa.binary()))
    assert decoded.rows.to_pylist() == [Decimal("99.9"), None, Decimal("-99.9"), None]
    assert sorted(decoded.reasons) == [1, 3]
    time = AvroText('{"type": "long", "logicalType": "timestamp-millis"}')
    decoder = AvroDecoder(time, formats.arrow_type(time.shape.spark))
    decoded = decoder.decode(pa.array([one(5, "long"), one(2**62, "long")], pa.binary()))
    assert decoded.rows.cast(pa.int64()).to_pylist() == [5000, None]
    with pytest.raises(ValueError, match="does not fit 1 bytes"):
        decimals.encoded(pa.array([Decimal(200)], pa.decimal128(3, 0)), 1)


def test_times_are_rounded_down():
    time = AvroText('{"type": "long", "logicalType": "timestamp-millis"}')
    micros = pa.array([-1, 1999, -1000, None], pa.timestamp("us", "UTC"))
    encoded = AvroEncoder("value", time).encode(micros).to_pylist()
    assert encoded == [one(-1, "long"), one(1, "long"), one(-1, "long"), None]


@pytest.mark.parametrize("schema", ["long", '"long"', '{"type": "long"}'])
def test_keys_need_no_record(schema):
    text = AvroText(schema)
    decoded = AvroDecoder(text, pa.int64()).decode(pa.array([b"\x0e", None, b""], pa.binary()))
    assert decoded.rows.to_pylist() == [7, None, None]
    assert decoded.reasons == {2: "it ends too early"}


def record(*fields, name="Row"):
    return {"type": "record", "name": name, "fields": list(fields)}


def test_schemas_are_resolved():
    """Fields that were added, removed, renamed and widened; unions and maps with defaults."""
    old = record(
        {"name": "a", "type": "int"},
        {"name": "gone", "type": "string"},
        {"name": "was", "type": "string"},
        {"name": "u", "type": ["int", "string"]},
    )
    new = record(
        {"name": "u", "type": ["null", "string", "int"]},
        {"name": "now", "type": "string", "aliases": ["was"]},
        {"name": "a", "type": "double"},
        {"name": "m", "type": {"type": "map", "values": "int"}, "default": {"x": 1}},
        {"name": "v", "type": ["int", "string"], "default": 5},
        {"name": "y", "type": "bytes", "default": "\u00ff"},
        {"name": "n", "type": ["null", "long"], "default": None},
    )
    written, schema = AvroText(json.dumps(old)), AvroText(json.dumps(new))
    values = [
        one({"a": 3, "gone": "", "was": "w", "u": each}, fastavro.parse_schema(old))
        for each in (7, "seven")
    ]
    decoder = AvroDecoder(schema, formats.arrow_type(schema.shape.spark), written)
    rows = decoder.decode(pa.array(values, pa.binary())).rows.to_pylist()
    common = {"now": "w", "a": 3.0, "m": [("x", 1)], "y": b"\xff", "n": None}
    common["v"] = {"member0": 5, "member1": None}
    assert rows == [
        {"u": {"member0": None, "member1": 7}, **common},
        {"u": {"member0": "seven", "member1": None}, **common},
    ]
    no_default = AvroText(json.dumps(record({"name": "z", "type": "int"})))
    decoder = AvroDecoder(no_default, formats.arrow_type(no_default.shape.spark), written)
    assert "z" in decoder.decode(pa.array(values, pa.binary())).reasons[0]


def test_schemas_may_name_types_of_others():
    text = AvroText('{"type": "array", "items": "Inner"}', (json.dumps(INNER),))
    assert text.shape.spark.simpleString() == "array<struct<z:bigint>>"
    decoder = AvroDecoder(text, formats.arrow_type(text.shape.spark))
    decoded = decoder.decode(pa.array([b"\x02\x08\x00"], pa.binary()))
    assert decoded.rows.to_pylist() == [[{"z": 4}]]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "no schema of Avro"),
        ('{"type": "recrd"}', "no schema of Avro"),
        ('"null"', "null has no counterpart"),
        ('["null"]', "null has no counterpart"),
        (json.dumps(record({"name": "r", "type": ["null", "Row"]})), "Row contains itself"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 39}', "precision is 38"),
    ],
)
def test_wrong_schemas(schema, message):
    with pytest.raises(AvroSchemaError, match=message):
        parse(schema)


def typed(schema):
    return Typed("value", "avro", schema=schema)


def test_schemas_are_in_files(tmp_path):
    path = tmp_path / "row.avsc"
    path.write_text(json.dumps(RECORD))
    assert formats.column_type(typed(str(path))) == SCHEMA.shape.spark
    with pytest.raises(ValueError, match="valueSchema is neither a schema of Avro"):
        formats.column_type(typed(str(tmp_path / "x.avsc")))
    with pytest.raises(ValueError, match="schema of value: it is no schema of Avro"):
        formats.column_type(typed("{"))


NULLABLE = {"name": "o", "type": ["null", "string"]}
WRITTEN = json.dumps(
    record(
        {"name": "i", "type": "int"},
        NULLABLE,
        {"name": "z", "type": "int", "default": 9},
        {"name": "a", "type": {"type": "array", "items": INNER}},
    )
)


def of_inner(kind):
    return ArrayType(StructType().add("z", kind))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (StructType().add("i", LongType()), "value.i is of type bigint, but int in the schema"),
        (StructType().add("i", IntegerType()), "value.a is missing: in the schema the field"),
        (
            StructType().add("i", ShortType()).add("a", of_inner(StringType())),
            r"value.a\[\].z is of type string, but long",
        ),
        (
            StructType()
            .add("i", IntegerType())
            .add("a", of_inner(LongType()))
            .add("x", LongType()),
            "has no field value.x",
        ),
        (StringType(), "value is of type string, but record Row"),
    ],
)
def test_frames_that_do_not_fit(kind, message):
    with pytest.raises(ValueError, match=message):
        formats.check(typed(WRITTEN), kind)


def test_fields_that_a_frame_does_not_have():
    kind = StructType().add("i", IntegerType()).add("a", of_inner(IntegerType()))
    formats.check(typed(WRITTEN), kind)
    rows = pa.array([{"i": 1, "a": [{"z": 2}]}], formats.arrow_type(kind))
    text = AvroText(WRITTEN)
    values = AvroEncoder("value", text).encode(rows)
    decoded = AvroDecoder(text, formats.arrow_type(text.shape.spark)).decode(values)
    assert decoded.rows.to_pylist() == [{"i": 1, "o": None, "z": 9, "a": [{"z": 2}]}]
    nothing = pa.array([{"i": None, "a": []}], rows.type)
    with pytest.raises(ValueError, match="the column value has a row that does not fit"):
        AvroEncoder("value", text).encode(nothing)


def test_a_schema_is_made_for_a_column():
    kind = SCHEMA.shape.spark
    made = AvroText(avro_schema.schema_of(kind))
    assert made.shape.spark == kind
    rows = pa.array([expected(EXAMPLE), None], KIND)
    again = AvroDecoder(made, KIND).decode(AvroEncoder("value", made).encode(rows))
    assert again.rows.equals(rows)


EXAMPLE = {
    "i": 1,
    "l": 2,
    "f": 0.5,
    "x": 0.1,
    "b": True,
    "s": "é",
    "y": b"\0",
    "o": None,
    "p": None,
    "u": {"z": 1},
    "w": 1,
    "v": 0.5,
    "e": "A",
    "g": b"abc",
    "a": [None],
    "m": {"k": {"j": 1}},
    "c": -125,
    "h": 7,
    "t": 1,
    "k": 2,
    "n": None,
    "d": 0,
    "q": "",
    "r": 3,
}


def test_an_example():
    found = AvroDecoder(SCHEMA, KIND).decode(pa.array([one(EXAMPLE)], pa.binary())).rows[0].as_py()
    assert (found["c"], found["d"]) == (Decimal("-1.25"), date(1970, 1, 1))
    assert found["t"] == datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)
