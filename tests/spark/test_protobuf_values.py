"""Protobuf to columns and back: as the library has it, and as Spark's `from_protobuf`."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)
from tests.support.registry_server import registry_server

from odradek.client.serializers import protobuf_schema
from odradek.client.serializers.settings import RegistrySettings
from odradek.spark.values import formats
from odradek.spark.values.protobuf import ProtobufDecoder, ProtobufEncoder
from odradek.spark.values.protobuf_shapes import prepare
from odradek.spark.values.settings import ProtobufOptions, Typed

TEXT = """
syntax = "proto3";
package test;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/empty.proto";

message Other {
  string of = 1;
}
message Row {
  enum E { ZERO = 0; ONE = 1; }
  message Inner { int64 z = 1; optional int64 y = 2; }
  bool b = 1;
  int32 i = 2;
  sint64 l = 3;
  float f = 4;
  double x = 5;
  string s = 6;
  bytes d = 7;
  E e = 8;
  Inner n = 9;
  optional int32 o = 10;
  repeated int32 r = 11;
  repeated Inner rn = 12;
  repeated E re = 13;
  map<string, Inner> m = 14;
  map<int32, E> me = 15;
  oneof k { int32 ka = 16; string kb = 17; Inner kc = 18; }
  google.protobuf.Timestamp t = 19;
  repeated google.protobuf.Timestamp rt = 20;
  google.protobuf.Duration u = 21;
  google.protobuf.Int32Value w = 22;
  fixed32 v = 23;
  uint64 q = 24;
  google.protobuf.Empty nothing = 25;
}
"""
TYPE = (
    "struct<b:boolean,i:int,l:bigint,f:float,x:double,s:string,d:binary,e:string,"
    "n:struct<z:bigint,y:bigint>,o:int,r:array<int>,rn:array<struct<z:bigint,y:bigint>>,"
    "re:array<string>,m:map<string,struct<z:bigint,y:bigint>>,me:map<int,string>,ka:int,kb:string,"
    "kc:struct<z:bigint,y:bigint>,t:timestamp,rt:array<timestamp>,u:interval day to second,"
    "w:struct<value:int>,v:int,q:bigint>"
)
EMPTY = dict.fromkeys(
    [
        "b",
        "i",
        "l",
        "f",
        "x",
        "s",
        "d",
        "e",
        "n",
        "o",
        "r",
        "rn",
        "re",
        "m",
        "me",
        "ka",
        "kb",
        "kc",
        "t",
        "rt",
        "u",
        "w",
        "v",
        "q",
    ],
    None,
) | {"r": [], "rn": [], "re": [], "m": [], "me": [], "rt": []}
SCHEMA = protobuf_schema.from_text(TEXT, "Row")
PLAIN = ProtobufOptions()
ALL = ProtobufOptions(
    emits_defaults=True, enums_as_numbers=True, widens_unsigned=True, unwraps=True
)


def library(name="test.Row"):
    """The message as the library has it, with maps."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(SCHEMA.descriptors).file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


Row = library()
ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
inner = st.fixed_dictionaries({"z": longs}, optional={"y": longs})
enums = st.integers(0, 1)
times = st.fixed_dictionaries(
    {"seconds": st.integers(-(10**10), 10**10), "nanos": st.integers(0, 10**9 - 1)}
)
rows = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        "i": ints,
        "l": longs,
        "f": st.floats(width=32, allow_nan=False),
        "x": st.floats(allow_nan=False),
        "s": text,
        "d": st.binary(max_size=3),
        "e": enums,
        "r": st.lists(ints, max_size=3),
        "rn": st.lists(inner, max_size=2),
        "re": st.lists(enums, max_size=2),
        "rt": st.lists(times, max_size=2),
        "me": st.dictionaries(ints, enums, max_size=2),
        "v": st.integers(0, 2**32 - 1),
        "q": st.integers(0, 2**64 - 1),
    },
    optional={
        "n": inner,
        "o": ints,
        "kb": text,
        "t": times,
        "w": st.fixed_dictionaries({"value": ints}),
    },
)


def time_of(given):
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        seconds=given["seconds"], microseconds=given["nanos"] // 1000
    )


def expected(row, options):
    """What Spark has: zeros without presence are null, unless the options say otherwise."""
    found = EMPTY | row
    names = ("ZERO", "ONE")
    for name in ("b", "i", "l", "f", "x", "s", "d", "e", "v", "q"):
        is_zero = not found[name] and str(found[name]) != "-0.0"
        if is_zero and not options.emits_defaults:
            found[name] = None

    def nested(each):
        z = each["z"] if each["z"] or options.emits_defaults else None
        return {"z": z, "y": each.get("y")}

    def enum(number):
        return number if options.enums_as_numbers or number is None else names[number]

    found["e"], found["re"] = enum(found["e"]), [enum(each) for each in found["re"]]
    found["rn"] = [nested(each) for each in found["rn"]]
    found["n"] = None if found["n"] is None else nested(found["n"])
    found["rt"] = [time_of(each) for each in found["rt"]]
    found["t"] = None if found["t"] is None else time_of(found["t"])
    found["me"] = sorted((key, enum(each)) for key, each in dict(found["me"]).items())
    if options.widens_unsigned:
        found["q"] = None if found["q"] is None else Decimal(found["q"])
    else:
        for name, bits in (("v", 32), ("q", 64)):
            number = found[name]
            if number is not None and number >= 2 ** (bits - 1):
                found[name] = number - 2**bits
    if found["w"] is not None:
        value = found["w"]["value"]
        if options.unwraps:
            found["w"] = value
        elif not value and not options.emits_defaults:
            found["w"] = {"value": None}
    return found


def decoder(options=PLAIN, schema=SCHEMA):
    kind = formats.arrow_type(prepare(schema, options).shape.spark)
    return pickle.loads(pickle.dumps(ProtobufDecoder(schema, options, kind)))


def decoded(values, options=PLAIN, schema=SCHEMA):
    found = decoder(options, schema).decode(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    return found


def test_the_types_are_those_of_from_protobuf():
    assert prepare(SCHEMA, PLAIN).shape.spark.simpleString() == TYPE
    changed = TYPE.replace("e:string", "e:int").replace("re:array<string>", "re:array<int>")
    changed = changed.replace("int,string>", "int,int>").replace("struct<value:int>", "int")
    changed = changed.replace("v:int,q:bigint", "v:int,q:decimal(20,0)")
    assert prepare(SCHEMA, ALL).shape.spark.simpleString() == changed.replace(
        ",v:int,", ",v:bigint,"
    )


@settings(max_examples=10, phases=[Phase.generate])
@given(st.lists(st.none() | rows, max_size=6), st.sampled_from([PLAIN, ALL]), st.data())
def test_messages_are_decoded_and_encoded_as_one_by_one(given, options, data):
    values = [None if each is None else Row(**each).SerializeToString() for each in given]
    wanted = [None if each is None else expected(each, options) for each in given]
    bad = []
    for place, value in enumerate(values):
        if value and data.draw(st.integers(0, 3)) == 0:
            values[place], wanted[place] = value + b"\xff", None
            bad.append(place)
    found = decoded(values, options)
    assert found.bad.nonzero()[0].tolist() == sorted(found.reasons) == bad
    result = found.rows.to_pylist()
    for each in result:
        if each is not None:
            each["me"].sort()
    assert result == wanted
    encoded = ProtobufEncoder("value", SCHEMA, options, b"\0pre").encode(found.rows)
    messages = [each and Row.FromString(each[4:]) for each in encoded.to_pylist()]
    originals = [
        None if wanted[place] is None else Row.FromString(value)
        for place, value in enumerate(values)
    ]
    for each in originals:
        if each is not None:  # columns have microseconds
            for time in (*each.rt, *([each.t] if each.HasField("t") else [])):
                time.nanos -= time.nanos % 1000
    assert messages == originals
    part = ProtobufEncoder("value", SCHEMA, options).encode(found.rows.slice(1)).to_pylist()
    assert [each and Row.FromString(each) for each in part] == messages[1:]


@given(st.lists(st.binary(max_size=20), max_size=6))
@settings(max_examples=10)
def test_any_bytes_are_decoded_or_have_a_reason(values):
    found = decoded(values)
    assert sorted(found.reasons) == found.bad.nonzero()[0].tolist()
    assert found.rows.is_null().to_pylist() == found.bad.tolist()


def one(values, name, options=PLAIN):
    return [each[name] for each in decoded(values, options).rows.to_pylist()]


def test_what_is_set_and_what_is_not():
    assert decoded([b""]).rows.to_pylist() == [EMPTY]
    zero = Row(o=0, ka=0, w={}, n={}, kc={}).SerializeToString()
    (row,) = decoded([zero]).rows.to_pylist()
    inner = {"z": None, "y": None}
    assert (row["o"], row["w"], row["n"]) == (0, {"value": None}, inner)
    assert (row["ka"], row["kb"], row["kc"]) == (None, None, inner), "the last of a oneof counts"
    assert one([Row(x=-0.0).SerializeToString()], "x") == [0.0]
    assert decoded([b""], ALL).rows[0].as_py()["x"] == 0.0


def test_maps():
    entry = Row(m={"a": {"z": 1}}).SerializeToString()
    later = Row(m={"a": {"z": 2}}).SerializeToString()
    other = Row(m={"": {}}).SerializeToString()
    assert one([entry + other + later, b"", later], "m") == [
        [("a", {"z": 2, "y": None}), ("", {"z": None, "y": None})],
        [],
        [("a", {"z": 2, "y": None})],
    ]


def test_times_and_numbers_at_the_limits():
    before = Row(t={"seconds": -1, "nanos": 999_999_999}, u={"seconds": -1, "nanos": -500_000_000})
    (row,) = decoded([before.SerializeToString()]).rows.to_pylist()
    assert row["t"] == datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
    assert row["u"] == timedelta(seconds=-1.5)
    again = ProtobufEncoder("value", SCHEMA, PLAIN).encode(
        decoded([before.SerializeToString()]).rows
    )
    before.t.nanos = 999_999_000
    assert Row.FromString(again[0].as_py()) == before
    found = decoded([b"", Row(t={"seconds": 2**62}).SerializeToString()])
    assert (found.bad.tolist(), list(found.reasons)) == ([False, True], [1])
    assert one([Row(e=7).SerializeToString()], "e") == ["UNKNOWN_ENUM_VALUE_E_7"]
    assert one([Row(e=7).SerializeToString()], "e", ALL) == [7]


def test_proto2():
    text = """
    syntax = "proto2";
    message A { required int32 r = 1; optional int32 d = 2 [default = 5]; optional int32 o = 3; }
    """
    schema = protobuf_schema.from_text(text, None)
    found = decoded([b"\x08\x01", b"\x18\x01"], schema=schema)
    assert found.rows.to_pylist() == [{"r": 1, "d": 5, "o": None}, None]
    assert "missing required" in found.reasons[1]
    with pytest.raises(ValueError, match=r"has a row that does not fit.*missing required"):
        ProtobufEncoder("value", schema, PLAIN).encode(
            pa.array([{"r": None}], pa.struct([("r", pa.int32())]))
        )
    with pytest.raises(ValueError, match=r"value\.r is missing: the schema requires it"):
        formats.check(typed(text), StructType().add("o", IntegerType()))


def typed(schema, message=None, **more):
    return Typed("value", "protobuf", schema=schema, message=message, **more)


@pytest.mark.parametrize(
    ("text", "message", "reason"),
    [
        (TEXT, "Rwo", r"no message Rwo\. Did you mean test\.Row\?"),
        (TEXT, "Rows", r"Did you mean test\.Row\?"),
        (TEXT, None, r"several messages, so one must be chosen: test\.Other, test\.Row$"),
        ("message A { int32 }", None, "odradek_column.proto:1:"),
        ('syntax = "proto3"; enum E { A = 0; }', None, "has no message"),
        ('syntax = "proto3"; message A { A a = 1; }', None, "message A contains itself"),
        ('syntax = "proto3"; message A {}', None, "message A has no fields"),
        ("no.such.proto", None, "neither a .proto text nor a file.*No such file"),
    ],
)
def test_wrong_schemas(text, message, reason):
    with pytest.raises(ValueError, match=reason):
        formats.column_type(typed(text, message))


def test_schemas_are_in_files(tmp_path):
    kind = prepare(SCHEMA, PLAIN).shape.spark
    (tmp_path / "test.proto").write_text(TEXT)
    own = 'syntax = "proto3"; import "test.proto"; message Mine { test.Other other = 1; }'
    (tmp_path / "mine.proto").write_text(own)
    (tmp_path / "set.desc").write_bytes(SCHEMA.descriptors)
    (tmp_path / "bad.desc").write_bytes(b"\xff")
    assert formats.column_type(typed(str(tmp_path / "test.proto"), "test.Row")) == kind
    assert formats.column_type(typed(str(tmp_path / "set.desc"), "Row")) == kind
    mine = formats.column_type(typed(str(tmp_path / "mine.proto")))
    assert mine.simpleString() == "struct<other:struct<of:string>>"
    with pytest.raises(ValueError, match=r"neither a .proto file nor a set of descriptors"):
        formats.column_type(typed(str(tmp_path / "bad.desc")))
    files = descriptor_pb2.FileDescriptorSet.FromString(SCHEMA.descriptors).file
    alone = descriptor_pb2.FileDescriptorSet(file=files[-1:])
    (tmp_path / "set.desc").write_bytes(alone.SerializeToString())
    assert formats.column_type(typed(str(tmp_path / "set.desc"), "Row")) == kind
    alone.file[0].dependency.append("not/there.proto")
    (tmp_path / "set.desc").write_bytes(alone.SerializeToString())
    with pytest.raises(ValueError, match=r"imports not/there\.proto, which is missing"):
        formats.column_type(typed(str(tmp_path / "set.desc"), "Row"))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (StructType().add("i", LongType()), r"value\.i is of type bigint, but int32"),
        (StructType().add("r", IntegerType()), r"value\.r is of type int, but repeated"),
        (StructType().add("r", ArrayType(StringType())), r"value\.r\[\] is of type string"),
        (StructType().add("me", MapType(StringType(), StringType())), r"value\.me\{\} is of type"),
        (StructType().add("nn", IntegerType()), r"no field value\.nn\. Did you mean n\?"),
    ],
)
def test_frames_that_do_not_fit(kind, reason):
    with pytest.raises(ValueError, match=reason):
        formats.check(typed(TEXT, "Row"), kind)


def test_rows_that_do_not_fit():
    rows = pa.array([{"e": "TWO"}], pa.struct([("e", pa.string())]))
    with pytest.raises(ValueError, match=r'the column value has a row .*unknown enum label "TWO"'):
        ProtobufEncoder("value", SCHEMA, PLAIN).encode(rows)


def test_with_a_registry():
    kind = StructType().add("z", LongType())
    newer = TEXT.replace("int64 z = 1;", "int64 z = 1; string added = 9;")
    with registry_server() as registry:
        settings = RegistrySettings((registry.url,), "", "", 10_000)
        inner = typed(TEXT, "Row.Inner", registry=settings, subject="s")
        rows = pa.array([{"z": 7}, None], formats.arrow_type(kind))
        (value, nothing) = formats.encoder(inner, kind).encode(rows).to_pylist()
        assert (value, nothing) == (b"\0\0\0\0\1\4\2\0\x08\x07", None)
        assert registry.schemas[1] == {"schema": TEXT, "schemaType": "PROTOBUF"}
        registry.add("s", newer, schemaType="PROTOBUF")
        registry.add("s", "syntax = 3", schemaType="PROTOBUF")
        latest = typed(None, "test.Row.Inner", registry=settings, subject="s")
        with pytest.raises(ValueError, match="no schema of Protobuf"):
            formats.column_type(latest)
        registry.subjects["s"].pop()
        wanted = formats.column_type(latest)
        assert wanted.simpleString() == "struct<z:bigint,added:string,y:bigint>"
        new = b"\0\0\0\0\2\4\2\0\x08\x07\x4a\1a"
        other, broken, first = b"\0\0\0\0\2\0", b"\0\0\0\0\3\0", b"\0\0\0\0\1\2\0"
        found = formats.decoder(latest, wanted).decode(
            pa.array([value, new, None, other, broken, first, b"\0\0\0\0\1"], pa.binary())
        )
        row = {"z": 7, "y": None, "added": None}
        assert found.rows.to_pylist() == [row, row | {"added": "a"}, *[None] * 5]
        assert found.reasons[3] == "it is not the message test.Row.Inner of its schema"
        assert "schema 3 in the registry: it is no schema of Protobuf" in found.reasons[4]
        assert found.reasons[5] == found.reasons[6] == found.reasons[3]
        assert formats.encoder(latest, kind).encode(rows)[0].as_py()[:8] == b"\0\0\0\0\2\4\2\0"
        top = typed(None, "Other", registry=settings, subject="s")
        found = formats.decoder(top, formats.column_type(top)).decode(
            pa.array([b"\0\0\0\0\1\0\x0a\1a", b"\0\0\0\0\1\2\0\x0a\1a"], pa.binary())
        )
        assert found.rows.to_pylist() == [{"of": "a"}, {"of": "a"}]


def test_imports_of_a_registry():
    with registry_server() as registry:
        settings = RegistrySettings((registry.url,), "", "", 10_000)
        registry.add("other", TEXT, schemaType="PROTOBUF")
        own = 'syntax = "proto3"; import "a/test.proto"; message Mine { test.Other other = 1; }'
        reference = {"name": "a/test.proto", "subject": "other", "version": 1}
        registry.add("s", own, schemaType="PROTOBUF", references=[reference])
        column = typed(None, registry=settings, subject="s")
        assert formats.column_type(column).simpleString() == "struct<other:struct<of:string>>"
        reference["name"] = "../a.proto"
        with pytest.raises(ValueError, match="imports a file outside of it"):
            formats.column_type(column)
