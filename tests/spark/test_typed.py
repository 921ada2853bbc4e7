"""Typed values in Spark: columns to JSON in a topic, and back."""

from __future__ import annotations

import pickle
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructType
from tests.support.registry_server import registry_server

from odradek.arrow.columns import ARROW_HEADERS
from odradek.spark import dead_letters, typed
from odradek.spark.json_decoding import JsonDecoder
from odradek.spark.options import Layout
from odradek.spark.typed import ColumnDecoder, RowDecoder, UndecodableValueError
from odradek.spark.values import formats
from odradek.spark.values.settings import Typed

PROTO = 'syntax = "proto3"; message Load { string name = 1; repeated int32 parts = 2; }'
SCHEMA = "name STRING, at TIMESTAMP, size INT, tags ARRAY<STRING>"
NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@pytest.mark.spark
def test_json_is_read_as_by_from_json(spark, servers, make_topic):
    topic = make_topic()
    schema = "t TIMESTAMP, d DECIMAL(10,2), m MAP<STRING, INT>"
    texts = [
        '{"t": "2026-11-28T01:02:03.123456789Z", "d": 1.005, "m": {"x": 1, "y": null}}',
        '{"t": 1795827600, "d": -1.005, "m": {}}',
        '{"t": "2026-11-28T03:02:03.1+02:00", "d": 1e3, "m": null}',
        '{"t": -1, "d": "12.345"}',
    ]
    producer = Producer({"bootstrap.servers": servers})
    for text in texts:
        producer.produce(topic, text)
    producer.flush(30)
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    source = spark.read.format("odradek").options(**options)
    bytes_of = source.load().orderBy("offset").selectExpr("CAST(value AS STRING) AS text")
    expected = bytes_of.selectExpr(f"from_json(text, '{schema}') AS value").select("value.*")
    typed_options = {"valueFormat": "json", "valueSchema": schema}
    found = source.options(**typed_options).load().orderBy("offset").select("value.*")
    assert found.collect() == expected.collect()
    milliseconds = source.options(timestampNumbers="milliseconds").load().where("offset = 1")
    (row,) = milliseconds.selectExpr("CAST(value.t AS DOUBLE) AS t").collect()
    assert row.t == 1795827.6


@pytest.mark.spark
def test_columns_become_json_and_come_back(spark, servers, make_topic, checkpoint):
    topic = make_topic()
    options = {"kafka.bootstrap.servers": servers, "valueFormat": "json"}
    rows = spark.sql(
        "SELECT 'k' AS key, named_struct('name', 'é\"', 'at', TIMESTAMP '2026-11-22 12:00:00Z',"
        " 'size', 3, 'tags', array('a', NULL)) AS value"
    )
    rows.write.format("odradek").mode("append").options(**options, topic=topic).save()
    producer = Producer({"bootstrap.servers": servers})
    for value in (b'{"size": "three"}', None, b'{"size": 4}'):
        producer.produce(topic, value)
    producer.flush(30)

    def read(source, **more):
        source = source.format("odradek").options(**options, subscribe=topic, **more)
        return source.option("startingOffsets", "earliest").load()

    strict = read(spark.read, valueSchema=SCHEMA)
    with pytest.raises(
        PySparkException, match=rf"{topic}-0 at offset 1 is not JSON of valueSchema"
    ):
        strict.collect()
    value = strict.where("offset = 0").select("value.*").collect()
    assert [tuple(row) for row in value] == [('é"', NOON.replace(tzinfo=None), 3, ["a", None])]
    texts = (
        spark.read.format("odradek")
        .options(subscribe=topic)
        .option("kafka.bootstrap.servers", servers)
    )
    first = texts.load().where("offset = 0").collect()[0].value
    assert first.startswith('{"name":"é\\"","at":"2026-11-22T12:00:00'.encode())

    bad = make_topic()
    good = read(spark.read, valueSchema=SCHEMA, badRecordsTopic=bad)
    assert good.columns == strict.columns
    assert [row.value.size if row.value else None for row in good.collect()] == [3, None, 4]
    (letter,) = (
        spark.read.format("odradek")
        .options(subscribe=bad, includeHeaders="true")
        .option("kafka.bootstrap.servers", servers)
        .load()
        .collect()
    )
    headers = {each.key.removeprefix("__odradek.errors."): each.value for each in letter.headers}
    assert (letter.key, letter.value) == (None, b'{"size": "three"}')
    assert headers.pop("message")
    assert headers == {"topic": topic.encode(), "partition": b"0", "offset": b"1"}

    schema = strict.schema["value"].dataType.json()
    stream = read(spark.readStream, valueSchema=schema, decodeErrors="null", includeHeaders="true")
    found = []
    query = (
        stream.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found.sort(key=lambda row: row.offset)
    assert [row.value.size if row.value else None for row in found] == [3, None, None, 4]
    assert [row.undecoded for row in found] == [None, b'{"size": "three"}', None, None]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{}", "not the JSON of a StructType"),
        ('{"type": "struct"', "not the JSON of a StructType"),
    ],
)
def test_wrong_schemas_are_reported(schema, message):
    with pytest.raises(ValueError, match=message):
        typed.schema(Layout(value=Typed("value", "json", schema=schema)))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"type": "binary", "nullable": True}, "value.x is of type binary; JSON values have"),
        (
            {
                "type": {
                    "type": "map",
                    "keyType": "integer",
                    "valueType": "string",
                    "valueContainsNull": True,
                },
                "nullable": True,
            },
            "value.x is of type map<int,string>: the keys of JSON are strings",
        ),
        ({"type": "long", "nullable": False}, "value.x is NOT NULL"),
    ],
)
def test_types_that_json_does_not_have(field, message):
    row = {"type": "struct", "fields": [{"name": "x", "metadata": {}, **field}]}
    with pytest.raises(ValueError, match=message):
        typed.check_type(StructType.fromJson(row), "value")


@pytest.mark.spark
def test_values_must_be_structs(spark, servers):
    write = spark.sql("SELECT 'text' AS value").write.format("odradek").mode("append")
    options = {"kafka.bootstrap.servers": servers, "topic": "x", "valueFormat": "json"}
    with pytest.raises(PySparkException, match="must be a struct with fields; it is string"):
        write.options(**options).save()


def test_a_registry_that_is_not_named():
    columns = {"value": pa.array([b"\0\0\0\0\1\2"], pa.binary()), "topic": ["t"]}
    batch = pa.record_batch({**columns, "partition": [0], "offset": [3]})
    column = Typed("value", "avro", schema="long")
    decoder = RowDecoder((ColumnDecoder(column, formats.decoder(column, LongType())),), False)
    with pytest.raises(
        UndecodableValueError, match=r"t-0 at offset 3 .*schemaRegistryUrl missing\?"
    ):
        decoder(batch)


@pytest.mark.parametrize("name", ["avro", "protobuf"])
def test_a_library_that_is_not_installed(monkeypatch, name):
    monkeypatch.setitem(sys.modules, f"odradek.spark.values.{name}_format", None)
    with pytest.raises(ValueError, match=rf"valueFormat={name} needs .* 'odradek\[spark\]'"):
        formats.column_type(Typed("value", name, schema="long"))


def test_records_that_cannot_be_decoded_are_separated():
    rows = [
        {"key": b"k", "value": b'{"x": 1}', "offset": 7, "headers": None},
        {
            "key": None,
            "value": b'{"x": "?"}',
            "offset": 9,
            "headers": [{"key": "h", "value": b"1"}],
        },
        {"key": b"k", "value": None, "offset": 10, "headers": None},
        {"key": b"k", "value": b"no", "offset": 11, "headers": None},
    ]
    types = {"key": pa.binary(), "value": pa.binary(), "offset": pa.int64()}
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}
    columns["topic"] = pa.repeat("t", len(rows))
    columns["partition"] = pa.array([2] * len(rows), pa.int32())
    columns["headers"] = pa.array([row["headers"] for row in rows], ARROW_HEADERS)
    json_decoder = JsonDecoder(pa.struct([("x", pa.int64())]))
    value = ColumnDecoder(Typed("value", "json", schema="x LONG"), json_decoder)
    decoder = pickle.loads(pickle.dumps(RowDecoder((value,), keeps_undecoded=False)))
    good, undecoded = decoder.separated(pa.record_batch(columns))
    assert good.column("offset").to_pylist() == [7, 10]
    assert good.column("value").to_pylist() == [{"x": 1}, None]
    assert undecoded is not None
    letters = dead_letters.letters(undecoded).to_pylist()
    assert [(each["key"], each["value"]) for each in letters] == [
        (None, b'{"x": "?"}'),
        (b"k", b"no"),
    ]
    place = [("topic", b"t"), ("partition", b"2")]
    for letter, original, offset in zip(letters, ([("h", b"1")], []), (b"9", b"11"), strict=True):
        pairs = [(each["key"], each["value"]) for each in letter["headers"]]
        added = [
            (dead_letters.PREFIX + name, value) for name, value in [*place, ("offset", offset)]
        ]
        assert pairs[: len(original)] == original
        assert pairs[-3:] == added
        ((name, message),) = pairs[len(original) : -3]
        assert (name, bool(message)) == (dead_letters.PREFIX + "message", True)
    whole, nothing = decoder.separated(pa.record_batch(columns).slice(0, 1))
    assert (whole.num_rows, nothing) == (1, None)


@pytest.mark.spark
def test_keys_and_values_with_a_schema_registry(spark, servers, make_topic, checkpoint):
    topic, bad = make_topic(), make_topic()
    rows = spark.sql(
        "SELECT 7L AS key, named_struct('at', TIMESTAMP '2026-11-22 12:00:00Z', 'price', 1.50BD,"
        " 'tags', map('a', array(1, NULL))) AS value UNION ALL SELECT 8L, NULL"
    ).coalesce(1)
    avro = {"keyFormat": "avro", "valueFormat": "avro", "kafka.bootstrap.servers": servers}
    with registry_server() as registry:
        avro["schemaRegistryUrl"] = registry.url
        rows.write.format("odradek").mode("append").options(**avro, topic=topic).save()
        assert sorted(registry.subjects) == [f"{topic}-key", f"{topic}-value"]
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(topic, b"text", b"\0\0\0\0\1\2")
        producer.flush(30)

        source = spark.read.format("odradek").options(**avro, subscribe=topic, badRecordsTopic=bad)
        found = sorted(source.load().select("offset", "key", "value").collect())
        value = {
            "at": NOON.replace(tzinfo=None),
            "price": Decimal("1.50"),
            "tags": {"a": [1, None]},
        }
        expected = [(0, 7, value), (1, 8, None)]
        assert [(at, key, row and row.asDict()) for at, key, row in found] == expected

        other = make_topic()
        proto = {**avro, "valueFormat": "protobuf", "valueMessage": "Load"}
        loads = spark.sql(
            "SELECT 7L AS key, named_struct('name', 'a', 'parts', array(1, 2)) AS value"
        )
        writer = loads.write.format("odradek").mode("append").options(**proto, topic=other)
        writer.option("valueSchema", PROTO).save()
        producer.produce(other, b"\0\0\0\0\3\0\xff", None)
        producer.flush(30)
        stream = spark.readStream.format("odradek").options(
            **proto, subscribe=other, startingOffsets="earliest", decodeErrors="null"
        )
        read = []
        query = (
            stream.load()
            .writeStream.foreachBatch(lambda batch, _: read.extend(batch.collect()))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    read.sort(key=lambda row: row.offset)
    assert [(row.key, row.undecodedKey, row.undecoded) for row in read] == [
        (7, None, None),
        (None, None, b"\0\0\0\0\3\0\xff"),
    ]
    assert [row.value and row.value.asDict() for row in read] == [
        {"name": "a", "parts": [1, 2]},
        None,
    ]
    plain = {"kafka.bootstrap.servers": servers, "subscribe": bad}
    (letter,) = (
        spark.read.format("odradek").options(**plain, includeHeaders="true").load().collect()
    )
    assert (letter.key, letter.value) == (b"\0\0\0\0\1\2", b"text")
    assert letter.headers[0].value.startswith(b"value: it does not begin with the byte 0")
