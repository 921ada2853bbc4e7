"""Schema registries: prefixes, the client, and what is registered when columns are written."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType
from tests.support.registry_server import registry_server

from odradek.client.errors import ClientError
from odradek.client.serializers.framing import prefix
from odradek.client.serializers.registry import Registry, RegistryError
from odradek.client.serializers.settings import RegistrySettings
from odradek.spark.values import formats, framing
from odradek.spark.values.avro import AvroText
from odradek.spark.values.avro_format import RegisteredAvro
from odradek.spark.values.settings import Typed

USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
NEWER = {
    **USER,
    "fields": [*USER["fields"], {"name": "age", "type": ["null", "int"], "default": None}],
}
NAMED = StructType().add("name", StringType())


@pytest.fixture
def registry():
    with registry_server() as running:
        yield running


def settings(registry, timeout_ms=10_000, user="", password=""):
    return RegistrySettings((registry.url,), user, password, timeout_ms)


def typed(registry, **more):
    given = {"subject": "users-value", "registry": settings(registry), **more}
    return Typed("value", "avro", **given)


def written(registry, kind, rows, **more):
    column = pa.array(rows, formats.arrow_type(kind))
    return formats.encoder(typed(registry, **more), kind).encode(column).to_pylist()


def read(registry, values, **more):
    wanted = typed(registry, **more)
    decoder = pickle.loads(pickle.dumps(formats.decoder(wanted, formats.column_type(wanted))))
    return decoder.decode(pa.array(values, pa.binary()))


def test_values_of_several_schemas_are_read_with_the_latest(registry):
    old = written(registry, NAMED, [{"name": "a"}, None], schema=json.dumps(USER))
    registry.add("other", '"long"')
    wide = StructType().add("age", IntegerType()).add("name", StringType())
    new = written(registry, wide, [{"age": 7, "name": "b"}], schema=json.dumps(NEWER))
    assert registry.subjects == {"users-value": [1, 3], "other": [2]}
    assert old == [b"\0\0\0\0\1\2a", None]
    bad = [b"", b"\0\0\0\0", b"\1\0\0\0\1\2a", b"\0\0\0\0\2\2", b"\0\0\0\0\1\4a", b"\0\0\0\1\0\2a"]
    decoded = read(registry, [*new, *old, *bad, *old])
    rows = [{"name": "b", "age": 7}, {"name": "a", "age": None}, None]
    assert decoded.rows.to_pylist() == [*rows, *[None] * len(bad), *rows[1:]]
    assert decoded.bad.tolist() == [False] * 3 + [True] * len(bad) + [False] * 2
    reasons = [decoded.reasons[3 + n] for n in range(len(bad))]
    assert all("does not begin with the byte 0" in each for each in reasons[:3])
    assert "SchemaResolution" in reasons[3]
    assert reasons[4] == "it ends too early"
    assert "no schema 256" in reasons[5]
    assert read(registry, old, schema=json.dumps(USER)).rows.to_pylist() == [{"name": "a"}, None]
    assert registry.requests.count("GET /schemas/ids/256") == 1


def test_only_prefixes_of_a_part_of_a_column(registry):
    values = pa.array([b"\0\0\0\0\7x", b"", None, b"\0\1\2\3\4"], pa.binary())
    ids, contents = framing.split(values.slice(1))
    assert (ids.tolist(), contents.to_pylist()) == ([-1, -1, 0x1020304], [b"", None, b""])
    assert framing.split(values)[1][0].as_py() == b"x"
    assert prefix(7) == b"\0\0\0\0\7"


def test_schemas_with_references(registry):
    registry.add("user", json.dumps(USER))
    reference = {"name": "User", "subject": "user", "version": 1}
    registry.add("users-value", '{"type": "array", "items": "User"}', references=[reference])
    assert formats.column_type(typed(registry)).simpleString() == "array<struct<name:string>>"
    assert read(registry, [b"\0\0\0\0\2\2\2a\0"]).rows.to_pylist() == [[{"name": "a"}]]


def test_what_is_written_without_a_schema(registry):
    """The latest schema of the subject; if there is none, a schema of the frame is registered."""
    (value,) = written(registry, NAMED, [{"name": "a"}])
    assert value == b"\0\0\0\0\1\2\2a"
    (made,) = (json.loads(each["schema"]) for each in registry.schemas.values())
    assert made["fields"] == [{"name": "name", "type": ["null", "string"], "default": None}]
    assert written(registry, NAMED, [{"name": "a"}]) == [value]
    assert registry.subjects == {"users-value": [1]}
    with pytest.raises(ValueError, match=r"value\.name is of type bigint, but string"):
        formats.encoder(typed(registry), StructType().add("name", LongType()))


def test_schemas_that_must_not_be_registered(registry):
    with pytest.raises(RegistryError, match="no subject users-value"):
        formats.encoder(typed(registry, registers=False), NAMED)
    registry.add("users-value", json.dumps(USER))
    given = {"registers": False, "schema": json.dumps(USER)}
    assert written(registry, NAMED, [{"name": "a"}], **given) == [b"\0\0\0\0\1\2a"]
    with pytest.raises(RegistryError, match="no version of the subject users-value"):
        formats.encoder(typed(registry, registers=False, schema=json.dumps(NEWER)), NAMED)
    assert len(registry.schemas) == 1


def test_errors_of_the_registry(registry):
    registry.add("user-value", json.dumps(USER))
    with pytest.raises(RegistryError, match=r"no subject users-value$") as raised:
        formats.column_type(typed(registry))
    assert raised.value.advice == "Did you mean user-value?"
    registry.incompatible = True
    with pytest.raises(RegistryError, match=r"users-value: .* not compatible.*MISSING_DEFAULT"):
        formats.encoder(typed(registry), NAMED)
    registry.add("users-value", "syntax = ...", schemaType="PROTOBUF")
    with pytest.raises(ValueError, match="of type PROTOBUF, not AVRO"):
        formats.column_type(typed(registry))
    assert "PROTOBUF" in read(registry, [b"\0\0\0\0\2"], schema="long").reasons[0]


def test_a_password(registry):
    registry.add("s/1", '"long"')
    registry.credentials = "me:secret"
    with pytest.raises(RegistryError, match="refuses the request: it returned 401") as raised:
        Registry(settings(registry)).latest("s/1")
    assert "basic.auth.user.info" in raised.value.advice
    found = Registry(settings(registry, user="me", password="secret")).latest("s/1")
    assert (found.schema_id, found.text) == (1, '"long"')


def test_failures_that_pass(registry):
    registry.add("s", '"long"')
    registry.failures += [500, 429, 503]
    assert Registry(settings(registry)).latest("s").schema_id == 1
    assert len(registry.requests) == 4
    registry.failures += [500] * 99
    with pytest.raises(ClientError, match="does not respond: it returned 500: planted"):
        Registry(settings(registry, timeout_ms=50)).by_id(1)


def test_another_address_is_tried(registry):
    registry.add("s", '"long"')
    settings = RegistrySettings(("http://127.0.0.1:1", registry.url), "", "", 10_000)
    assert Registry(settings).latest("s").schema_id == 1
    nowhere = RegistrySettings(("http://127.0.0.1:1",), "", "", 10)
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1 does not respond: .*refused"):
        Registry(nowhere).latest("s")


def test_a_registry_that_does_not_respond_is_no_fault_of_the_values(registry):
    decoder = RegisteredAvro(
        RegistrySettings(("http://127.0.0.1:1",), "", "", 10), pa.int64(), AvroText("long")
    )
    with pytest.raises(ClientError, match="does not respond"):
        decoder.decode(pa.array([b"\0\0\0\0\1\2"], pa.binary()))
