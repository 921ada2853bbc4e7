"""Markers are found if and only if their transaction was committed."""

from __future__ import annotations

import random
import uuid

import pytest
from tests.spark.batches import record_batch
from tests.support.run_seed import seeds

from odradek.client.producer.transactions import end_transaction, init_producer
from odradek.records.batch import RecordBatch
from odradek.records.builder import RecordBatchBuilder
from odradek.records.control import end_of_transaction_batch
from odradek.spark import markers
from odradek.spark.markers import PARTITION, Marker
from odradek.spark.options import write_options
from odradek.spark.producing import Sender


def batch_of(marker, producer_id):
    encoded = markers.encoded(marker)
    producer = (producer_id, 0, 0)
    return RecordBatch(record_batch(encoded, 1, producer=producer, is_transactional=True))


@pytest.mark.parametrize("seed", seeds(20))
def test_the_last_committed_marker_of_a_key_is_found(seed):
    """In any interleaving of the transactions of several queries."""
    draw = random.Random(seed)
    queries = {f"query-{number}": number for number in range(3)}
    expected = dict.fromkeys(queries)
    open_: dict[str, Marker] = {}
    batches = []
    for number in range(60):
        key = draw.choice(sorted(queries))
        if key not in open_:
            open_[key] = Marker(key, number, [{"t": {"0": number}}])
            batches.append(batch_of(open_[key], queries[key]))
            continue
        is_committed = draw.random() < 0.5
        marker = open_.pop(key)
        if is_committed:
            expected[key] = marker
        end = end_of_transaction_batch(
            is_committed,
            producer_id=queries[key],
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=1,
        )
        batches.append(RecordBatch(end))
    for key, marker in expected.items():
        found = markers._Committed(key.encode())
        for batch in batches:
            found.read(batch)
        assert found.marker == marker, f"seed {seed}"


def test_other_records_of_the_topic_are_ignored():
    builder = RecordBatchBuilder()
    builder.append(1, None, b"x")
    builder.append(1, b"key", None)
    found = markers._Committed(b"key")
    found.read(RecordBatch(builder.build()))
    assert found.marker is None


@pytest.mark.usefixtures("transactions")
def test_the_open_transaction_of_another_query_hides_no_marker(cluster, servers):
    options = write_options({"bootstrap.servers": servers})
    first, second = (f"{name}-{uuid.uuid4()}" for name in ("first", "second"))
    producers = {key: init_producer(cluster, key, 60_000) for key in (first, second)}
    markers.create_topic(cluster)
    assert markers.last(cluster, second) is None
    for key, producer in producers.items():
        sender = Sender(cluster, options, producer)
        sender.send({PARTITION: markers.encoded(Marker(key, 7))}, 1)
        sender.flush()
    end_transaction(cluster, producers[second], committed=True)
    init_producer(cluster, second, 60_000)  # as at the next start: the markers are written
    assert markers.last(cluster, second) == Marker(second, 7)
    assert markers.last(cluster, first) is None
    end_transaction(cluster, producers[first], committed=False)
