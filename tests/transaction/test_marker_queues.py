"""The markers for other brokers: one request at a time, and who gets which results."""

from __future__ import annotations

import random

import pytest
from tests.support.run_seed import seeds

from odradek.core.transaction.markers import (
    REQUEST_MARKERS_MAX,
    Marker,
    MarkerQueues,
    QueuedMarker,
)
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

OK = ErrorCode.NONE
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
A, B, C = TopicPartition("a", 0), TopicPartition("a", 3), TopicPartition("__consumer_offsets", 7)


def queued(ticket, producer_id, *partitions, epoch=2, coordinator=0):
    marker = Marker(producer_id, 5, epoch, True, 2, partitions or (A,))
    return QueuedMarker(coordinator, marker, ticket)


def response(results):
    """`results` has the codes of each producer's partitions."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                        ],
                    )
                    for (topic, index), code in codes.items()
                ],
            )
            for producer_id, codes in results.items()
        ]
    )


def test_the_markers_of_many_transactions_are_one_request():
    queues = MarkerQueues()
    queues.add(1, queued("x", 10, A, C, B))
    queues.add(1, queued("y", 11, A, epoch=9))
    queues.add(2, queued("z", 12))
    request = queues.begin(1)
    first, second = request.markers
    assert (first.producer_id, first.producer_epoch, first.coordinator_epoch) == (10, 5, 2)
    assert first.transaction_result is True
    assert first.transaction_version == 2
    assert {each.name: each.partition_indexes for each in first.topics} == {
        "a": [0, 3],
        "__consumer_offsets": [7],
    }
    assert (second.producer_id, second.coordinator_epoch) == (11, 9)
    assert [each.producer_id for each in queues.begin(2).markers] == [12]
    results = dict(queues.finish(1, response({11: {A: MOVED}, 10: {A: OK, C: OK, B: MOVED}})))
    assert results == {"x": {A: OK, C: OK, B: MOVED}, "y": {A: MOVED}}


def test_what_comes_while_a_request_is_in_flight_is_sent_after_it():
    queues = MarkerQueues()
    assert queues.begin(1) is None
    queues.add(1, queued("x", 10))
    assert queues.begin(1) is not None
    queues.add(1, queued("y", 11))
    queues.add(1, queued("z", 12))
    assert queues.begin(1) is None
    assert queues.finish(1, response({10: {A: OK}})) == [("x", {A: OK})]
    assert [each.producer_id for each in queues.begin(1).markers] == [11, 12]


def test_without_a_response_there_are_no_results():
    queues = MarkerQueues()
    queues.add(1, queued("x", 10))
    queues.begin(1)
    assert queues.finish(1, None) == [("x", {})]
    assert queues.begin(1) is None


def test_a_producer_has_one_marker_in_a_request():
    """Results are by producer id."""
    queues = MarkerQueues()
    for ticket, partition in (("x", A), ("y", B)):
        queues.add(1, queued(ticket, 10, partition))
    queues.add(1, queued("z", 11))
    assert [each.producer_id for each in queues.begin(1).markers] == [10, 11]
    queues.finish(1, None)
    assert [each.producer_id for each in queues.begin(1).markers] == [10]
    assert queues.finish(1, response({10: {B: OK}})) == [("y", {B: OK})]


def test_a_request_has_a_limit():
    queues = MarkerQueues()
    for number in range(REQUEST_MARKERS_MAX + 1):
        queues.add(1, queued(number, number))
    assert len(queues.begin(1).markers) == REQUEST_MARKERS_MAX
    queues.finish(1, None)
    assert len(queues.begin(1).markers) == 1


def test_results_that_were_not_asked_for():
    queues = MarkerQueues()
    queues.add(1, queued("x", 10))
    queues.begin(1)
    assert queues.finish(1, response({99: {A: OK}, 10: {A: 9999}})) == [
        ("x", {A: ErrorCode.UNKNOWN_SERVER_ERROR})
    ]


def test_the_markers_of_a_partition_that_moved_are_dropped():
    queues = MarkerQueues()
    queues.add(1, queued("sent", 10, coordinator=4))
    queues.add(1, queued("other", 11, coordinator=5))
    queues.begin(1)
    queues.add(1, queued("waiting", 12, coordinator=4))
    queues.add(2, queued("elsewhere", 13, coordinator=4))
    assert sorted(queues.drop(4)) == ["elsewhere", "sent", "waiting"]
    assert queues.finish(1, response({10: {A: OK}, 11: {A: OK}})) == [("other", {A: OK})]
    assert queues.begin(1) is None
    assert queues.begin(2) is None
    assert queues.drop(4) == []


@pytest.mark.parametrize("seed", seeds(20))
def test_each_marker_has_one_outcome(seed):
    """It gets its results once, or is dropped once, whatever the order of events."""
    drawn = random.Random(seed)
    queues = MarkerQueues()
    in_flight, outcomes, added = {}, [], 0
    for _ in range(300):
        broker = drawn.randrange(3)
        choice = drawn.random()
        if choice < 0.5:
            marker = queued(added, drawn.randrange(4), coordinator=drawn.randrange(2))
            queues.add(broker, marker)
            added += 1
        elif choice < 0.7:
            request = queues.begin(broker)
            if request is not None:
                assert broker not in in_flight
                producers = [each.producer_id for each in request.markers]
                assert len(set(producers)) == len(producers)
                in_flight[broker] = producers
        elif choice < 0.95 and broker in in_flight:
            answer = response({each: {A: OK} for each in in_flight.pop(broker)})
            finished = queues.finish(broker, answer if drawn.random() < 0.5 else None)
            outcomes += [ticket for ticket, _ in finished]
        elif choice >= 0.95:
            outcomes += queues.drop(drawn.randrange(2))
    for broker in range(3):
        if broker in in_flight:
            outcomes += [ticket for ticket, _ in queues.finish(broker, None)]
        while queues.begin(broker) is not None:
            outcomes += [ticket for ticket, _ in queues.finish(broker, None)]
    assert sorted(outcomes) == list(range(added))
