"""Options: those of Spark's connector are understood, the others are refused with advice."""

from __future__ import annotations

import pytest

from odradek.client.serializers.settings import RegistrySettings
from odradek.model.topic_partition import TopicPartition
from odradek.records.compression import Codec
from odradek.spark.offsets import (
    EARLIEST,
    LATEST,
    At,
    AtTime,
    Listed,
    from_json,
    require_all,
    to_json,
)
from odradek.spark.options import (
    CONNECTION_OPTIONS,
    READ_OPTIONS,
    WRITE_OPTIONS,
    Layout,
    ReadFrom,
    Subscription,
    layout,
    read_options,
    write_options,
)
from odradek.spark.values.given import TUNING_IGNORED
from odradek.spark.values.settings import ProtobufOptions, Typed

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
TYPED = {"valueFormat": "json", "valueSchema": "a INT"}
AVRO = {"valueFormat": "avro"}
REGISTRY = {"schemaRegistryUrl": "http://registry:8081/, http://other:8081"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def read(streaming=False, **options):
    return read_options({**SERVERS, "subscribe": "a", **options}, streaming)


def test_defaults_are_those_of_sparks_connector():
    batch, stream = read(), read(streaming=True)
    assert (batch.start, batch.end) == (At(EARLIEST), At(LATEST))
    assert stream.start == At(LATEST)
    assert batch.fail_on_data_loss
    assert not batch.layout.headers
    assert not batch.read_committed
    assert batch.connection.bootstrap_servers == "localhost:9092"


def test_segments_are_read_if_log_directories_are_given():
    assert read().read_from is ReadFrom.BROKER
    given = read(logDirs="/var/log/a, /b/")
    assert (given.read_from, given.log_directories) == (ReadFrom.AUTO, ("/var/log/a", "/b"))
    assert read(logDirs="/a", readFrom="segments").read_from is ReadFrom.SEGMENTS
    for options, message in (
        ({"readFrom": "segments"}, "readFrom=segments needs logDirs"),
        ({"readFrom": "broker", "logDirs": "/a"}, "has no effect with readFrom=broker"),
        ({"readFrom": "segment", "logDirs": "/a"}, "Did you mean segments?"),
        ({"logDirs": "data/log"}, "logDirs must be absolute paths; data/log is not"),
        ({"logDir": "/a"}, "Did you mean logDirs?"),
    ):
        with pytest.raises(ValueError, match=message):
            read(**options)


def test_names_may_be_short_and_of_any_case():
    options = read_options(
        {"bootstrap.servers": "b:1", "SUBSCRIBE": " a, b ", "minpartitions": "4"}, streaming=False
    )
    assert options.connection.bootstrap_servers == "b:1"
    assert options.subscription == Subscription(topics=("a", "b"))
    assert options.min_partitions == 4


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingOffsets": "latest"}, At(LATEST)),
        ({"startingOffsets": '{"a": {"0": 17, "1": -2}}'}, Listed({A0: 17, A1: EARLIEST})),
        ({"startingTimestamp": "1000"}, AtTime(1000, latest_if_none=False)),
        (
            {
                "startingOffsets": "earliest",
                "startingOffsetsByTimestamp": '{"a": {"0": 5}}',
                "startingOffsetsByTimestampStrategy": "latest",
            },
            AtTime({A0: 5}, latest_if_none=True),
        ),
    ],
)
def test_where_a_stream_starts(given, expected):
    assert read(streaming=True, **given).start == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOfsets": "earliest"}, r'unknown option "startingOfsets". Did you mean'),
        ({"kafka.sasl.login.class": "x"}, "unknown option.*Known are: .*subscribePattern"),
        ({"assign": '{"a": [0]}'}, "exactly one of assign, subscribe, subscribePattern"),
        ({"subscribe": " , "}, "subscribe names nothing"),
        ({"startingOffsets": "newest"}, "startingOffsets must be JSON like"),
        ({"startingOffsets": '{"a": {"0": "1"}}'}, "startingOffsets must be JSON like"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "offset -3 of a-0"),
        ({"startingOffsets": "latest"}, "would read nothing"),
        ({"endingOffsets": "earliest"}, "would read nothing"),
        ({"minPartitions": "none"}, "minPartitions must be an integer"),
        ({"minPartitions": "0"}, "minPartitions must be at least 1"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss must be one of true, false"),
        ({"valueFormat": "xml"}, "valueFormat must be one of json, avro"),
        ({"valueFormat": "arvo"}, r"Did you mean avro\?"),
        ({"valueFormt": "avro"}, r"Did you mean valueFormat\?"),
        ({"valueFormat": "json"}, "need both valueFormat=json and valueSchema$"),
        ({"keyFormat": "avro"}, "need both keyFormat=avro and keySchema, or schemaRegistryUrl"),
        ({"keySchema": "long"}, "keySchema needs keyFormat"),
        (TYPED | {"valueMessage": "M"}, "valueMessage is for valueFormat=protobuf"),
        (TYPED | {"valueSubject": "s"}, "valueSubject needs schemaRegistryUrl"),
        (TYPED | {"enums.as.ints": "true"}, "enums.as.ints is for valueFormat or keyFormat proto"),
        ({"emit.default.value": "true"}, r"Did you mean emit\.default\.values\?"),
        ({"schemaRegistryUser": "u"}, "schemaRegistryUser needs schemaRegistryUrl"),
        (REGISTRY, "schemaRegistryUrl is for valueFormat or keyFormat avro"),
        (REGISTRY | TYPED, "schemaRegistryUrl is for valueFormat or keyFormat avro"),
        (AVRO | REGISTRY | {"schemaRegistryUser": "u"}, "give both schemaRegistryUser and"),
        (AVRO | {"schemaRegistryUrl": "ftp://a"}, "must be like http://host:8081"),
        (AVRO | {"schemaRegistryUrl": " , "}, "must be like http://host:8081"),
        (AVRO | {"schemaRegistryUrl": "http://u:p@a"}, "give schemaRegistryUser and"),
        (AVRO | REGISTRY | {"subscribe": "a,b"}, "give valueSubject"),
        (AVRO | REGISTRY | {"registerSchemas": "true"}, 'unknown option "registerSchemas"'),
        ({"decodeErrors": "null"}, "valueFormat and valueSchema are missing"),
        ({"timestampNumbers": "seconds"}, "timestampNumbers is for valueFormat or keyFormat json"),
        (TYPED | {"timestampNumbers": "days"}, "timestampNumbers must be one of seconds, milli"),
        ({"badRecordsTopic": "b"}, "badRecordsTopic is for typed values"),
        (TYPED | {"badRecordsTopic": "b", "decodeErrors": "null"}, "not both"),
        (TYPED | {"badRecordsTopic": "a"}, "badRecordsTopic a is read by the same query"),
        ({"kafka.security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL"),
        ({"kafka.security.protocol": "SASL_SSL"}, "sasl.mechanism is missing"),
    ],
)
def test_errors_are_reported(given, message):
    with pytest.raises(ValueError, match=message):
        read(**given)


def test_errors_in_stream_options_are_reported():
    with pytest.raises(ValueError, match="maxTriggerDelay must be a time"):
        read(streaming=True, maxTriggerDelay="soon")
    with pytest.raises(ValueError, match=r"kafka\.bootstrap\.servers.*missing"):
        read_options({"subscribe": "a"}, streaming=False)
    with pytest.raises(ValueError, match="exactly one of"):
        read_options(SERVERS, streaming=False)
    with pytest.raises(ValueError, match="pattern"):
        read_options({**SERVERS, "subscribePattern": "a("}, streaming=False)
    with pytest.raises(ValueError, match="a stream has no end"):
        read(streaming=True, endingOffsets="latest")


def test_tuning_of_the_java_client_is_warned_of():
    assert all(name == name.lower() for name in TUNING_IGNORED)
    known = (*CONNECTION_OPTIONS, *READ_OPTIONS, *WRITE_OPTIONS)
    assert TUNING_IGNORED.isdisjoint(name.lower() for name in known)
    with pytest.warns(UserWarning, match=r'"kafka\.max\.poll\.records" has no effect'):
        read(**{"kafka.max.poll.records": "500"})
    for name in ("kafka.default.api.timeout.ms", "kafka.client.rack", "metrics.num.samples"):
        with pytest.warns(UserWarning, match="has no effect in this source"):
            read(**{name: "1"})
        with pytest.warns(UserWarning, match="has no effect in this source"):
            write_options({**SERVERS, name: "1"})
    with pytest.warns(UserWarning, match="maxOffsetsPerTrigger is for streams"):
        read(maxOffsetsPerTrigger="5")


def test_limits_and_group():
    options = read(
        streaming=True,
        maxOffsetsPerTrigger="10",
        minOffsetsPerTrigger="5",
        maxTriggerDelay="2m",
        **{"kafka.group.id": "g", "kafka.isolation.level": "read_committed"},
    )
    assert options.max_records_per_trigger == 10
    assert options.min_records_per_trigger == 5
    assert options.max_trigger_delay_ms == 120_000
    assert options.group_id == "g"
    assert options.read_committed


def test_headers_are_asked_for():
    assert layout({"includeHeaders": "true"}).headers
    assert not layout(SERVERS).headers


def test_typed_values_are_asked_for():
    given = {"subscribe": "a", "valueFormat": "JSON", "valueSchema": "a INT"}
    given["decodeErrors"] = "null"
    wanted = Layout(value=Typed("value", "json", schema="a INT"), keeps_undecoded=True)
    assert read(**given).layout == layout(given) == wanted
    assert read().layout == layout({}) == Layout()
    written = write_options({**SERVERS, "valueFormat": "json"})
    assert (written.key, written.value) == (None, Typed("value", "json"))


def test_options_of_protobuf():
    given = {"valueFormat": "protobuf", "valueSchema": "a.proto", "valueMessage": "M"}
    options = {"enums.as.ints": "true", "unwrap.primitive.wrapper.types": "true"}
    chosen = ProtobufOptions(enums_as_numbers=True, unwraps=True)
    wanted = Typed("value", "protobuf", schema="a.proto", message="M", protobuf=chosen)
    assert read(**given, **options).layout.value == wanted


def test_a_schema_registry_is_asked_for():
    user = {"schemaRegistryUser": "me", "schemaRegistryPassword": "secret"}
    given = {**AVRO, **REGISTRY, **user, "keyFormat": "avro", "keySubject": "other"}
    found = read(**given, **{"kafka.request.timeout.ms": "7"}).layout
    urls = ("http://registry:8081", "http://other:8081")
    registry = RegistrySettings(urls, "me", "secret", timeout_ms=7)
    assert found.value == Typed("value", "avro", registry=registry, subject="a-value")
    assert found.key == Typed("key", "avro", registry=registry, subject="other")
    assert "secret" not in repr(found)
    with pytest.raises(ValueError, match="give valueSubject"):
        write_options({**SERVERS, **AVRO, **REGISTRY, "valueSchema": "long"})
    written = write_options(
        {**SERVERS, **AVRO, **REGISTRY, "topic": "t", "registerSchemas": "false"}
    )
    assert written.value is not None
    assert (written.value.subject, written.value.registers) == ("t-value", False)


def test_bad_records_are_written_to_another_topic():
    options = read(**TYPED, badRecordsTopic="b", **{"kafka.request.timeout.ms": "7"})
    assert options.bad_records is not None
    assert options.bad_records.topic == "b"
    assert options.bad_records.connection == options.connection
    assert (options.reads_headers, options.layout.headers) == (True, False)
    assert not read(**TYPED).reads_headers
    pattern = {**SERVERS, **TYPED, "subscribePattern": "a.*"}
    assert read_options({**pattern, "badRecordsTopic": "bad.a"}, False).bad_records is not None
    with pytest.raises(ValueError, match="is read by the same query"):
        read_options({**pattern, "badRecordsTopic": "a.bad"}, False)


def test_writes():
    options = write_options({**SERVERS, "topic": "t", "kafka.compression.type": "zstd"})
    assert (options.topic, options.codec, options.acks) == ("t", Codec.ZSTD, -1)
    assert options.idempotent
    assert not write_options({**SERVERS, "kafka.acks": "1"}).idempotent
    write_options({**SERVERS, "checkpointLocation": "/x", "queryName": "q"})
    with pytest.raises(ValueError, match="needs acks=all"):
        write_options({**SERVERS, "acks": "0", "enable.idempotence": "true"})
    with pytest.raises(ValueError, match=r'unknown option "subscribe"\. '):
        write_options({**SERVERS, "subscribe": "t"})


def test_offsets_go_to_checkpoints_and_back():
    offsets = {A1: 5, A0: 1 << 40}
    assert to_json(offsets) == {"a": {"0": 1 << 40, "1": 5}}
    assert from_json(to_json(offsets)) == offsets


def test_listed_offsets_must_be_those_that_are_read():
    require_all(At(EARLIEST), [A0, A1], "startingOffsets")
    with pytest.raises(ValueError, match="startingOffsets has no offset for a-1"):
        require_all(Listed({A0: 1}), [A0, A1], "startingOffsets")
    with pytest.raises(ValueError, match="names a-1, which are not read"):
        require_all(AtTime({A0: 1, A1: 2}, latest_if_none=True), [A0], "startingOffsets")
