"""Rows that one task encodes and another task writes: the same records as by one task."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.strategies import content, headers
from tests.spark.batches import record_batch

from odradek.arrow.columns import ARROW_HEADERS
from odradek.client.core.partitioners import partition_for_key
from odradek.records.batch import RecordBatch
from odradek.records.compression import Codec
from odradek.records.record import iterate_records
from odradek.spark.options import write_options
from odradek.spark.topic_writer import encoded_rows, write_encoded
from odradek.spark.write_schema import ENCODED_TYPES, EncodedFor

PARTITIONS = 3
some_rows = st.lists(st.tuples(content, content, headers), max_size=30)


class Topic:
    """Keeps the records of each partition, and the sizes of batches."""

    def __init__(self, codec):
        self.codec = codec
        self.records = {}
        self.is_flushed = False

    def send(self, round_, timestamp_ms):
        for partition, encoded in round_.items():
            batch = RecordBatch(memoryview(record_batch(encoded, timestamp_ms, self.codec)))
            batch.check()
            found = list(iterate_records(batch))
            assert len(found) == encoded.record_count
            self.records.setdefault(partition.partition, []).extend(found)

    def flush(self):
        self.is_flushed = True


def options(**more):
    servers = {"kafka.bootstrap.servers": "nowhere:1", "topic": "t"}
    return write_options({**servers, **more})


def frame(rows):
    columns = {
        "key": pa.array([row[0] for row in rows], pa.binary()),
        "value": pa.array([row[1] for row in rows], pa.binary()),
        "headers": pa.array(
            [[{"key": k, "value": v} for k, v in row[2]] or None for row in rows], ARROW_HEADERS
        ),
    }
    return pa.record_batch(columns)


@given(
    some_rows,
    st.sampled_from(list(Codec)),
    st.integers(1, 500),
    st.lists(st.integers(0, 30), max_size=3),
)
def test_all_rows_are_written_in_order_to_the_partitions_of_their_keys(
    rows, codec, batch_size, cuts
):
    given_options = options(
        **{"compression.type": codec.name.lower(), "batch.size": str(batch_size)}
    )
    whole = frame(rows)
    bounds = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    batches = [whole.slice(a, b - a) for a, b in itertools.pairwise(bounds)]
    encoded = list(encoded_rows(given_options, PARTITIONS, batches))
    assert all(each.schema.names == list(ENCODED_TYPES) for each in encoded)
    topic = Topic(codec)
    assert write_encoded(topic, EncodedFor("t", codec), encoded) == len(rows)
    assert topic.is_flushed
    written = {
        partition: [(each.key, each.value, tuple(each.headers)) for each in found]
        for partition, found in topic.records.items()
    }
    keyless = {p for p, found in written.items() if any(key is None for key, _, _ in found)}
    assert len(keyless) <= 1
    expected = {}
    for key, value, pairs in rows:
        partition = min(keyless) if key is None else partition_for_key(key, PARTITIONS)
        expected.setdefault(partition, []).append((key, value, tuple(pairs)))
    assert written == expected


def test_a_named_partition_has_precedence_and_must_exist():
    columns = {"value": pa.array([b"a", b"b"]), "partition": pa.array([2, 0], pa.int32())}
    topic = Topic(Codec.NONE)
    encoded = encoded_rows(options(), PARTITIONS, [pa.record_batch(columns)])
    assert write_encoded(topic, EncodedFor("t", Codec.NONE), encoded) == 2
    assert {p: [each.value for each in found] for p, found in topic.records.items()} == {
        0: [b"b"],
        2: [b"a"],
    }
    with pytest.raises(ValueError, match="has partitions 0 to 1, not 2"):
        list(encoded_rows(options(), 2, [pa.record_batch(columns)]))
