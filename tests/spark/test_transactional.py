"""The parts of exactly-once writes that need neither Spark nor a broker."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
from pyspark.sql.types import StructType

from odradek.arrow.encoding import EncodedRecords
from odradek.client.errors import UnreachableError
from odradek.client.producer.transactions import TransactionalProducer
from odradek.model.topic_partition import TopicPartition
from odradek.records.compression import Codec
from odradek.spark import distribution, markers, transactional
from odradek.spark.options import read_options, write_options
from odradek.spark.transactional import ForDriver, WriteConflictError, Written, transactional_id
from odradek.spark.write_schema import (
    ENCODED_TYPES,
    PARTITION,
    SHARED_MARK,
    EncodedFor,
    check_schema,
    encoded_for,
    shared_for,
)
from odradek.spark.writers import NotBegunError, StreamWriter

SERVERS = {"kafka.bootstrap.servers": "nowhere:1", "topic": "t"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FRAME = StructType().add("value", "binary")
PLACED = StructType()
for _name in ENCODED_TYPES:
    _mark = EncodedFor("t", Codec.LZ4).mark if _name == PARTITION else None
    PLACED.add(_name, "integer", metadata=_mark)


def identity(streaming=True, **options) -> str:
    return transactional_id(write_options({**SERVERS, **options}), streaming=streaming)


def test_a_query_has_the_same_transactional_id_after_each_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = f"odradek-spark-{tmp_path}/c"
    for path in ("c", str(tmp_path / "c"), f"file:{tmp_path}/c"):
        assert identity(checkpointLocation=path) == expected
    assert identity(checkpointLocation="s3://b/c") == "odradek-spark-s3://b/c"
    assert identity(checkpointLocation="c", **{"kafka.transactional.id": "mine"}) == "mine"
    assert identity(False, txnAppId="a", txnVersion="1") == "odradek-spark-a"
    assert identity(False) != identity(False)
    with pytest.raises(ValueError, match="need the option checkpointLocation"):
        identity()


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"deliveryGuarantee": "exactly-once", "acks": "1"}, FRAME, "need acks=all"),
        ({"deliveryGuarantee": "exactly-once"}, FRAME, "need the option checkpointLocation"),
        ({"acks": "1"}, PLACED, "need acks=all"),
        ({"txnAppId": "a", "txnVersion": "1"}, FRAME, "are for batch writes"),
    ],
)
def test_a_writer_refuses_what_it_cannot_guarantee(options, schema, message):
    with pytest.raises(ValueError, match=message):
        StreamWriter(write_options({**SERVERS, **options}), schema)


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"topic": "other"}, PLACED, "partitioned for the topic t, but written to other"),
        ({}, PLACED, "encoded with kafka.compression.type=lz4, but written with none"),
        ({}, StructType(PLACED.fields[:1]), "lacks record_count, records"),
    ],
)
def test_an_encoded_frame_is_written_with_the_same_options(options, schema, message):
    assert encoded_for(schema) == ("t", Codec.LZ4)
    with pytest.raises(ValueError, match=message):
        check_schema(schema, write_options({**SERVERS, **options}))
    check_schema(PLACED, write_options({**SERVERS, "compression.type": "lz4"}))
    assert encoded_for(FRAME) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"txnAppId": "a"}, "give both txnAppId and txnVersion"),
        ({"txnVersion": "1"}, "give both txnAppId and txnVersion"),
        ({"deliveryGuarantee": "twice"}, "must be one of exactly-once, at-least-once"),
        (
            {"deliveryGuarantee": "at-least-once", "transactional.id": "a"},
            "needs deliveryGuarantee=exactly-once",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        write_options({**SERVERS, **options})


def test_a_frame_whose_tasks_share_sequence_numbers_is_written_to_its_topic():
    schema = StructType().add("value", "binary", metadata={SHARED_MARK: "t"})
    assert (shared_for(schema), shared_for(FRAME), shared_for(PLACED)) == ("t", None, None)
    check_schema(schema, write_options(SERVERS))
    with pytest.raises(ValueError, match="partitioned for the topic t, but written to other"):
        check_schema(schema, write_options({**SERVERS, "topic": "other"}))


def test_a_transaction_that_cannot_begin_says_why(monkeypatch):
    def fail(*_, **__):
        raise UnreachableError("cannot connect to nowhere:1")

    monkeypatch.setattr(transactional, "begin", fail)
    writer = StreamWriter(write_options({**SERVERS, "checkpointLocation": "/c"}), PLACED)
    with pytest.raises(NotBegunError, match="cannot connect to nowhere:1"):
        pickle.dumps(writer)


def test_the_driver_takes_rows_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(transactional, "FOR_DRIVER_BYTES_MAX", 30)
    rows = ForDriver()
    for _ in range(3):
        rows.send({T0: EncodedRecords(memoryview(b"x" * 10), 2)}, 1)
    assert rows.batches == {T0: [(b"x" * 10, 2)] * 3}
    with pytest.raises(ValueError, match="by_partition"):
        rows.send({T1: EncodedRecords(memoryview(b"x"), 1)}, 1)


def test_a_partition_has_one_task():
    def written(*partitions):
        return Written(1, partitions=frozenset(partitions))

    transactional._check_owners([written(T0), written(T1), written()])
    with pytest.raises(WriteConflictError, match=r"several tasks wrote to t-1"):
        transactional._check_owners([written(T0, T1), written(T1)])
    for message in (
        written(markers.PARTITION),
        Written(1, batches={markers.PARTITION: []}),
        Written(1, shared={markers.PARTITION: 1}),
    ):
        with pytest.raises(WriteConflictError, match="reserved"):
            transactional._check_owners([message])
    with pytest.raises(WriteConflictError, match="have not shared their sequence numbers"):
        transactional._check_owners([Written(1, shared={T0: 1}, files=frozenset(["/nowhere"]))])


def test_source_offsets_come_from_a_local_checkpoint(tmp_path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text('v1\n{"batchWatermarkMs":0}\n{"t":{"0":5}}\n-')
    (tmp_path / "offsets" / "8").write_text('v1\n{}\n{"t":{"0":5}}\n{"u":{"0":6}}')
    assert transactional.source_offsets(str(tmp_path), 7) is None
    expected = [{"t": {"0": 5}}, {"u": {"0": 6}}]
    for path in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}"):
        assert transactional.source_offsets(path, 8) == expected
    for path in (None, "s3://b/c", str(tmp_path / "none")):
        assert transactional.source_offsets(path, 8) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spark.master": "local[4]"}, None),
        ({"spark.master": "local"}, None),
        ({"spark.master": "spark://h:1", "spark.stage.maxConsecutiveAttempts": "1"}, None),
        ({"spark.master": "spark://h:1"}, "maxConsecutiveAttempts=1"),
        ({"spark.master": "local-cluster[2,1,1024]"}, "maxConsecutiveAttempts=1"),
        ({"spark.master": "local", "spark.speculation": "true"}, "speculation=false"),
    ],
)
def test_sessions_that_repeat_tasks_unseen_are_refused(settings, message):
    context = SimpleNamespace(getConf=lambda: settings)
    frame = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
    if message is None:
        distribution._check_session(frame)
        return
    with pytest.raises(ValueError, match=message):
        distribution._check_session(frame)


def test_the_progress_of_a_query_has_a_group_unless_turned_off():
    def group(**options):
        read = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "a,b", **options}
        return read_options(read, streaming=True).group_id

    assert group() == "spark-a,b"
    assert group(groupId="mine") == group(**{"kafka.group.id": "mine"}) == "mine"
    assert group(commitOffsets="false", groupId="mine") is None


def test_messages_travel_between_processes():
    message = Written(3, TransactionalProducer("id", 1, 2), "query", frozenset([T0]), {T1: []})
    assert pickle.loads(pickle.dumps(message)) == message
