"""Serializers: Java's bytes, Confluent's wire format, and what is asked of a registry."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import uuid

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from tests.support.registry_server import registry_server

from odradek.client.errors import ClientError, SerializationError
from odradek.client.serializers import (
    Avro,
    Boolean,
    Double,
    Float,
    Integer,
    Json,
    JsonSchema,
    Long,
    Protobuf,
    Raw,
    Short,
    Text,
    Uuid,
    protobuf_schema,
)
from odradek.client.serializers.framing import index_prefixes, read_indexes
from odradek.client.serializers.interface import (
    deserializer_of,
    is_ready,
    reads_headers,
    serializer_of,
)
from odradek.client.serializers.registry import RegistryError
from odradek.client.serializers.settings import parse_registry
from odradek.client.serializers.subjects import record_name, topic_record_name

USER = {
    "type": "record",
    "namespace": "a",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}],
}
NEWER = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int", "default": 7}]}
PROTO = 'syntax = "proto3"; package p; message A { message B { map<string, int32> m = 1; } B b = 1; } message C {}'


@pytest.fixture
def registry():
    with registry_server() as running:
        yield running


# -- without a registry -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("serializer", "value", "data"),
    [
        (Text(), "é", b"\xc3\xa9"),
        (Text("utf-16-be"), "a", b"\0a"),
        (Short(), -2, b"\xff\xfe"),
        (Integer(), 1, b"\0\0\0\1"),
        (Long(), -(2**63), b"\x80" + bytes(7)),
        (Float(), 1.5, b"\x3f\xc0\0\0"),
        (Double(), -0.5, b"\xbf\xe0" + bytes(6)),
        (Boolean(), True, b"\1"),
        (Uuid(), uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
        (Raw(), b"\0\xff", b"\0\xff"),
        (Json(), {"a": [1, None, "é"]}, '{"a":[1,null,"é"]}'.encode()),
    ],
)
def test_the_bytes_are_those_of_java(serializer, value, data):
    assert serializer.serialize("t", value) == data
    assert serializer.deserialize("t", data) == value


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (Text(), 1),
        (Text("ascii"), "é"),
        (Short(), 2**15),
        (Integer(), True),
        (Integer(), 1.5),
        (Long(), "1"),
        (Float(), 1e300),
        (Boolean(), 1),
        (Uuid(), "x"),
        (Raw(), "x"),
        (Json(), {1, 2}),
        (Json(), float("nan")),
    ],
)
def test_values_that_do_not_fit(serializer, value):
    with pytest.raises(SerializationError):
        serializer.serialize("t", value)


@pytest.mark.parametrize(
    ("serializer", "data"),
    [
        (Text(), b"\xff"),
        (Long(), b"\0\0\0\1"),
        (Boolean(), b"\2"),
        (Uuid(), b"x"),
        (Json(), b"{"),
    ],
)
def test_bytes_of_another_kind(serializer, data):
    with pytest.raises(SerializationError):
        serializer.deserialize("t", data)


def test_functions_and_other_objects():
    assert serializer_of(str.encode, is_key=True)("t", "a") == b"a"
    assert deserializer_of(bytes.decode, is_key=False)("t", b"a", ()) == "a"
    assert deserializer_of(Text(), is_key=False)("t", b"a", [("h", None)]) == "a"
    assert not reads_headers(Text())
    assert is_ready(Text(), "t", b"a")
    with pytest.raises(TypeError, match="the class Text: make an object of it"):
        serializer_of(Text, is_key=False)
    with pytest.raises(TypeError, match="it is 7"):
        deserializer_of(7, is_key=False)


def test_settings_of_a_registry():
    found = parse_registry(
        {"schema.registry.url": "http://a:1, https://b/", "basic.auth.user.info": "me:se:cret"}
    )
    assert (found.urls, found.user, found.password) == (
        ("http://a:1", "https://b"),
        "me",
        "se:cret",
    )
    assert "cret" not in repr(found)
    for wrong, message in [
        ({}, "must be like http"),
        ({"schema.registry.url": "localhost:8081"}, "must be like http"),
        ({"schema.registry.url": "http://a", "url": 1}, "no setting url"),
        ({"schema.registry.url": "http://a", "basic.auth.user.info": "me"}, "user:password"),
        ({"schema.registry.url": "http://u:p@a"}, "has a user"),
        ({"schema.registry.url": "https://a", "schema.registry.ssl.ca.location": "/no"}, "/no"),
    ]:
        with pytest.raises(ValueError, match=message):
            parse_registry(wrong)


def test_a_library_that_is_missing_is_named_with_its_extra():
    program = (
        "import sys; sys.modules['fastavro'] = None\n"
        "from odradek.client.serializers import Text, JsonSchema\n"
        "try:\n    from odradek.client.serializers import Avro\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "Avro needs the package fastavro: pip install 'odradek[serializers]'\n"


# -- Avro ---------------------------------------------------------------------------------------


def test_avro_is_registered_once_and_resolved_to_the_readers_schema(registry):
    old, new = Avro(registry.url, USER), Avro(registry.url, json.dumps(NEWER))
    assert not is_ready(old, "t", {"name": "a"})
    data = old.serialize("t", {"name": "a"})
    assert data == b"\0\0\0\0\1\2a"
    assert is_ready(old, "t", {"name": "b"})
    old.serialize("t", {"name": "b"})
    assert registry.requests == ["POST /subjects/t-value/versions"]
    assert not is_ready(new, "t", data)
    assert new.deserialize("t", data) == {"name": "a", "age": 7}
    assert is_ready(new, "t", data)
    assert Avro(registry.url).deserialize("t", data) == {"name": "a"}
    newer = new.serialize("t", {"name": "c", "age": 1})
    assert registry.subjects == {"t-value": [1, 2]}
    assert old.deserialize("t", newer) == {"name": "c"}


def test_keys_have_their_own_subject(registry):
    write = serializer_of(Avro(registry.url, '"long"'), is_key=True)
    assert write("t", 1) == b"\0\0\0\0\1\2"
    assert list(registry.subjects) == ["t-key"]


def test_strategies_of_subjects(registry):
    for strategy in (record_name, topic_record_name):
        Avro(registry.url, USER, subject_name_strategy=strategy).serialize("t", {"name": ""})
    assert list(registry.subjects) == ["a.User", "t-a.User"]
    with pytest.raises(SerializationError, match="has no name"):
        Avro(registry.url, "long", subject_name_strategy=record_name).serialize("t", 1)


def test_the_latest_version_is_written(registry):
    registry.add("t-value", json.dumps(NEWER))
    latest = Avro(registry.url, use_latest_version=True)
    assert latest.serialize("t", {"name": "a", "age": 1}) == b"\0\0\0\0\1\2a\2"
    registry.add("t-value", json.dumps(USER))
    assert latest.serialize("t", {"name": "a"})[4] == 1
    fresh = Avro(registry.url, use_latest_version=True, latest_cache_ttl_s=0)
    assert fresh.serialize("t", {"name": "a"})[4] == 2
    chosen = Avro(registry.url, use_schema_id=1)
    assert chosen.serialize("anything", {"name": "a"}) == b"\0\0\0\0\1\2a\x0e"


def test_schemas_that_must_be_registered_already(registry):
    careful = Avro(registry.url, USER, auto_register_schemas=False, normalize_schemas=True)
    with pytest.raises(RegistryError, match="no version of the subject t-value") as raised:
        careful.serialize("t", {"name": "a"})
    assert raised.value.advice == "Register it, or omit auto.register.schemas=false."
    assert registry.requests[-1] == "POST /subjects/t-value?normalize=true"
    registry.add("t-value", json.dumps(USER))
    assert careful.serialize("t", {"name": "a"}) == b"\0\0\0\0\1\2a"


def test_references_and_two_versions_of_one_name(registry):
    registry.add("user", json.dumps(USER))
    registry.add("user", json.dumps(NEWER))
    one = Avro(registry.url, ["null", "a.User"], references=[("a.User", "user", 1)])
    two = Avro(
        registry.url, {"type": "array", "items": "a.User"}, references=[("a.User", "user", 2)]
    )
    assert one.serialize("t", {"name": "a"}) == b"\0\0\0\0\3\2\2a"
    data = two.serialize("u", [{"name": "a", "age": 1}, {"name": "b", "age": 2}])
    assert data == b"\0\0\0\0\4\4\2a\2\2b\4\0"
    assert Avro(registry.url).deserialize("u", data)[1] == {"name": "b", "age": 2}
    assert registry.schemas[3]["references"] == [
        {"name": "a.User", "subject": "user", "version": 1}
    ]
    one.serialize("t", None)


def test_objects(registry):
    kind = type("User", (), {"__init__": lambda self, name: setattr(self, "name", name)})
    users = Avro(registry.url, USER, to_dict=vars, from_dict=lambda row: kind(**row))
    assert users.deserialize("t", users.serialize("t", kind("é"))).name == "é"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "with nothing"),
        (b"\0\0\0\1", "with 00000001"),
        (b'{"a": 1}', "with 7b22"),
        (b"\0\0\0\0\1\4a", "too early"),
        (b"\0\0\0\0\1\2ab", "1 of its 8 bytes follow"),
        (b"\0\0\0\0\1\2\xff", "does not fit"),
        (b"\0\0\0\0\2", "of type JSON, not AVRO"),
    ],
)
def test_avro_that_cannot_be_decoded(registry, data, message):
    registry.add("t-value", json.dumps(USER))
    registry.add("u-value", "{}", schemaType="JSON")
    with pytest.raises(SerializationError, match=message):
        Avro(registry.url).deserialize("t", data)


def test_avro_that_cannot_be_encoded(registry):
    with pytest.raises(SerializationError, match="does not fit"):
        Avro(registry.url, USER).serialize("t", {"name": 1})
    with pytest.raises(SerializationError, match="has no schema"):
        Avro(registry.url).serialize("t", {"name": 1})
    with pytest.raises(ValueError, match="no schema of Avro"):
        Avro(registry.url, '{"type": "recor"}')


def test_the_id_may_be_in_a_header(registry):
    registry.add("t-value", json.dumps(USER))
    guid = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")
    registry.guids[str(guid)] = 1
    read = deserializer_of(Avro(registry.url), is_key=False)
    header = bytes.fromhex("0189791762233641869674299b90a802e2")
    assert read("t", b"\2a", [("x", b"1"), ("__value_schema_id", header)]) == {"name": "a"}
    assert read("t", b"\2a", [("__value_schema_id", b"\0\0\0\0\1")]) == {"name": "a"}
    assert read("t", header + b"\2a", [("__key_schema_id", b"?")]) == {"name": "a"}
    assert registry.requests == [f"GET /schemas/guids/{guid}", "GET /schemas/ids/1"]
    with pytest.raises(SerializationError, match="__value_schema_id is not the id"):
        read("t", b"\2a", [("__value_schema_id", b"\3")])


def test_a_schema_with_rules_is_refused(registry):
    rule = {"name": "r", "type": "ENCRYPT", "kind": "TRANSFORM"}
    registry.add("t-value", json.dumps(USER), ruleSet={"domainRules": [rule]})
    with pytest.raises(RegistryError, match="schema 1 has rules"):
        Avro(registry.url).deserialize("t", b"\0\0\0\0\1\2a")


def test_a_token(registry):
    registry.credentials = "secret"
    refused, let_in = (
        Avro({"schema.registry.url": registry.url, "bearer.auth.token": word}, USER)
        for word in ("guess", "secret")
    )
    with pytest.raises(RegistryError, match="401") as raised:
        refused.serialize("t", {"name": "a"})
    assert "bearer.auth.token" in raised.value.advice
    assert let_in.serialize("t", {"name": "a"}) == b"\0\0\0\0\1\2a"


# -- Protobuf -----------------------------------------------------------------------------------


def test_protobuf_of_a_text(registry):
    inner = Protobuf(registry.url, PROTO, name="p.A.B", as_dict=True)
    data = inner.serialize("t", {"m": {"x": 1}})
    assert data == b"\0\0\0\0\1" + b"\4\0\0" + b"\x0a\5\x0a\1x\x10\1"
    assert inner.deserialize("t", data) == {"m": {"x": 1}}
    message = Protobuf(registry.url).deserialize("t", data)
    assert (message.DESCRIPTOR.full_name, dict(message.m)) == ("p.A.B", {"x": 1})
    assert Protobuf(registry.url, PROTO, name="A").serialize("t", {}) == b"\0\0\0\0\1\0"
    assert Protobuf(registry.url, PROTO, name="C").serialize("t", {}) == b"\0\0\0\0\1\2\2"
    with pytest.raises(SerializationError, match=r"does not fit p\.C"):
        Protobuf(registry.url, PROTO, name="C").serialize("t", {"x": 1})
    with pytest.raises(SerializationError, match=r"no message at the place \[7\]"):
        Protobuf(registry.url).deserialize("t", b"\0\0\0\0\1\2\x0e")


def test_protobuf_of_a_generated_class(registry):
    kind = descriptor_pb2.DescriptorProto.ExtensionRange
    ranges = Protobuf(registry.url, kind)
    data = ranges.serialize("t", kind(start=1, end=2))
    assert data[:5] + bytes([data[5]]) == b"\0\0\0\0\1\4"  # two numbers
    assert ranges.deserialize("t", data) == kind(start=1, end=2)
    assert Protobuf(registry.url).deserialize("t", data).end == 2
    with pytest.raises(SerializationError, match=r"is a google\.protobuf\.Timestamp, not"):
        ranges.serialize("t", timestamp_pb2.Timestamp())


def test_files_that_a_class_imports_are_registered_first(registry):
    inner = 'syntax = "proto3"; package q; message I { int32 x = 1; }'
    outer = 'syntax = "proto3"; import "q/i.proto"; message O { q.I i = 1; }'
    kind = protobuf_schema.from_text(outer, "O", (("q/i.proto", inner),)).message_class
    data = Protobuf(registry.url, kind).serialize("t", {"i": {"x": 3}})
    assert data == b"\0\0\0\0\2\0" + b"\x0a\2\x08\3"
    assert registry.subjects == {"q/i.proto": [1], "t-value": [2]}
    reference = {"name": "q/i.proto", "subject": "q/i.proto", "version": 1}
    assert registry.schemas[2]["references"] == [reference]
    assert Protobuf(registry.url, as_dict=True).deserialize("t", data) == {"i": {"x": 3}}


def test_places_of_messages():
    for indexes in [(0,), (1,), (2, 3), (0, 0, 200)]:
        for form in index_prefixes(indexes):
            assert read_indexes(b"xx" + form + b"yy", 2) == (indexes, 2 + len(form))
    for wrong in (b"", b"\4\2", b"\1", b"\xff\xff\xff\xff\xff\xff", b"\xfe\x7f"):
        with pytest.raises(SerializationError):
            read_indexes(wrong, 0)


# -- JSON Schema --------------------------------------------------------------------------------


def test_json_with_a_schema(registry):
    schema = {"title": "User", "type": "object"}
    users = JsonSchema(registry.url, schema, subject_name_strategy=record_name)
    data = users.serialize("t", {"name": "é"})
    assert data == b"\0\0\0\0\1" + '{"name":"é"}'.encode()
    assert registry.subjects == {"User": [1]}
    assert registry.schemas[1]["schemaType"] == "JSON"
    assert JsonSchema(registry.url).deserialize("t", data) == {"name": "é"}
    with pytest.raises(SerializationError, match="no JSON"):
        users.deserialize("t", b"\0\0\0\0\1{")
    with pytest.raises(ClientError, match="no schema 9"):
        users.deserialize("t", struct.pack(">bI", 0, 9))
