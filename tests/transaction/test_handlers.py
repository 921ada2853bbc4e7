"""The requests of transactions over a socket, as brokers and administrators send them."""

from __future__ import annotations

import pytest
from compat.lab.wire_client import WireClient
from tests.node.exported import by_labels
from tests.transaction.test_produce import TIMEOUT_MS, batch, code_of, image_of, produce_request

from odradek.client.cluster import Cluster
from odradek.model.errors import ErrorCode
from odradek.testing import Broker
from odradek.wire.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.generated.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.generated.describe_transactions_response import DescribeTransactionsResponse
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.list_transactions_request import ListTransactionsRequest
from odradek.wire.generated.list_transactions_response import ListTransactionsResponse
from odradek.wire.generated.produce_response import ProduceResponse
from odradek.wire.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.generated.txn_offset_commit_response import TxnOffsetCommitResponse
from odradek.wire.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.wire.generated.write_txn_markers_response import WriteTxnMarkersResponse

OK = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"target": 2}) as broker:
        yield broker


@pytest.fixture
def ask(broker):
    """Sends a request and returns the answer."""
    with Cluster(broker.bootstrap_servers) as cluster:
        cluster.coordinator("any", 1)
        cluster.coordinator("any", 0)
        connection = cluster.any()
        yield lambda request, response: connection.request(request, response, TIMEOUT_MS)


def initialize(ask, name):
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
    answer = ask(request, InitProducerIdResponse)
    return answer.producer_id, answer.producer_epoch


def adding(name, producer, *indexes, topic="target", verify_only=False):
    return AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))],
    )


def added(ask, *transactions):
    """By transactional id: the codes by partition."""
    request = AddPartitionsToTxnRequest(transactions=list(transactions))
    answer = ask(request, AddPartitionsToTxnResponse)
    assert not answer.error_code
    return {
        result.transactional_id: {
            partition.partition_index: ErrorCode(partition.partition_error_code)
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
        for result in answer.results_by_transaction
    }


def test_many_transactions_are_added_and_verified_at_once(ask):
    one, other = initialize(ask, "one"), initialize(ask, "other")
    codes = added(
        ask,
        adding("one", one, 0),
        adding("other", (other[0], other[1] + 1), 0, 1),
        adding("nobody", one, 1),
        adding("third", one, 0, 7),
        adding("", one, 0),
    )
    assert codes == {
        "one": {0: OK},
        "other": dict.fromkeys((0, 1), ErrorCode.PRODUCER_FENCED),
        "nobody": {1: ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        "third": {7: UNKNOWN, 0: ErrorCode.OPERATION_NOT_ATTEMPTED},
        "": {0: ErrorCode.INVALID_REQUEST},
    }
    codes = added(ask, adding("one", one, 0, 1, verify_only=True))
    assert codes == {"one": {0: OK, 1: ErrorCode.TRANSACTION_ABORTABLE}}


def test_partitions_that_are_listed_twice_are_answered_twice(ask):
    producer = initialize(ask, "twice")
    request = AddPartitionsToTxnRequest(
        transactions=[adding("twice", producer, 1, 1), adding("twice", producer)]
    )
    answer = ask(request, AddPartitionsToTxnResponse)
    first, second = answer.results_by_transaction
    (topic,) = first.topic_results
    assert [each.partition_index for each in topic.results_by_partition] == [1, 1]
    assert [each.results_by_partition for each in second.topic_results] == [[]]


def test_offsets_of_unknown_partitions_are_refused_alone(ask, broker):
    producer = initialize(ask, "offsets")

    def partitions(*indexes):
        return [
            TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=5, committed_metadata=""
            )
            for index in indexes
        ]

    request = TxnOffsetCommitRequest(
        transactional_id="offsets",
        group_id="group",
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[
            TxnOffsetCommitRequestTopic(name="target", partitions=partitions(0, 9)),
            TxnOffsetCommitRequestTopic(name="missing", partitions=partitions(0)),
        ],
    )

    def codes():
        answer = ask(request, TxnOffsetCommitResponse)
        return {
            (topic.name, each.partition_index): ErrorCode(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }

    assert codes() == {("target", 0): OK, ("target", 9): UNKNOWN, ("missing", 0): UNKNOWN}
    target = image_of(broker, "target").id
    first, second = request.topics
    first.name, first.topic_id, second.name, second.topic_id = "", target, "", bytes(16)
    with WireClient(int(broker.bootstrap_servers.rpartition(":")[2])) as client:
        answer = client.call("TxnOffsetCommit", 6, request, TxnOffsetCommitResponse)
    assert {
        (topic.topic_id, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    } == {(target, 0): OK, (target, 9): UNKNOWN, (bytes(16), 0): ErrorCode.UNKNOWN_TOPIC_ID}
    first.name, second.name = "target", "missing"

    request.producer_epoch += 1
    assert codes()["target", 0] is ErrorCode.INVALID_PRODUCER_EPOCH
    request.producer_id += 50
    assert codes()["target", 0] is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    request.group_id = ""
    assert codes()["target", 0] is ErrorCode.INVALID_GROUP_ID


def test_markers_are_written_where_they_can_be(ask, broker):
    producer_id, epoch = initialize(ask, "marked")
    topic = image_of(broker, "target")
    request = produce_request(topic, batch(producer_id, epoch, 0), transactional_id="marked")
    assert code_of(ask(request, ProduceResponse)) is OK
    log = broker.node.broker.replicas.find("target", 0).log
    assert log.last_stable_offset < log.high_watermark

    def write(coordinator_epoch, *indexes, epoch=epoch):
        topics = [WritableTxnMarkerTopic(name="target", partition_indexes=list(indexes))]
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=topics,
            coordinator_epoch=coordinator_epoch,
        )
        answer = ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
        (result,) = answer.markers
        assert result.producer_id == producer_id
        return {
            each.partition_index: ErrorCode(each.error_code)
            for topic in result.topics
            for each in topic.partitions
        }

    assert write(5, 0, epoch=-1) == {0: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert write(5, 0, epoch=-2) == {0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert log.last_stable_offset < log.high_watermark
    assert write(5, 0, 1, 8) == {0: OK, 1: OK, 8: UNKNOWN}
    assert log.last_stable_offset == log.high_watermark
    assert write(4, 0) == {0: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert not ask(WriteTxnMarkersRequest(), WriteTxnMarkersResponse).markers
    empty = WritableTxnMarker(producer_id=producer_id, producer_epoch=epoch)
    assert not ask(WriteTxnMarkersRequest(markers=[empty]), WriteTxnMarkersResponse).markers


def test_listing_and_describing(ask):
    producer = initialize(ask, "listed")
    assert added(ask, adding("listed", producer, 1, 0))["listed"] == {0: OK, 1: OK}
    request = DescribeTransactionsRequest(transactional_ids=["listed", "no such", ""])
    described = ask(request, DescribeTransactionsResponse).transaction_states
    assert [each.error_code for each in described] == [
        OK,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
    ]
    assert described[0].transaction_state == "Ongoing"
    assert [(each.topic, each.partitions) for each in described[0].topics] == [("target", [0, 1])]

    def listed(**filters):
        answer = ask(ListTransactionsRequest(**filters), ListTransactionsResponse)
        assert answer.unknown_state_filters == filters.get("state_filters", [])[1:]
        return {each.transactional_id for each in answer.transaction_states} & {"listed"}

    assert listed() == {"listed"}
    assert listed(state_filters=["Ongoing", "Sleeping"]) == {"listed"}
    assert listed(state_filters=["Empty"]) == set()
    assert listed(producer_id_filters=[producer[0]]) == {"listed"}
    assert listed(producer_id_filters=[producer[0] + 1]) == set()
    assert listed(duration_filter=3_600_000) == set()
    assert listed(transactional_id_pattern="li.*d") == {"listed"}
    assert listed(transactional_id_pattern="li") == set(), "the whole id has to match"
    answer = ask(ListTransactionsRequest(transactional_id_pattern="*"), ListTransactionsResponse)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_numbers(ask, broker):
    producer_id, epoch = initialize(ask, "counted")
    topic = image_of(broker, "target")
    request = produce_request(topic, batch(producer_id, epoch, 0), transactional_id="counted")
    assert code_of(ask(request, ProduceResponse)) is OK
    numbers = by_labels(broker.node)
    assert numbers["odradek_transactional_ids", ("Ongoing",)] >= 1
    assert numbers["odradek_transactions_ending", ()] == 0
    assert numbers["odradek_partition_undecided_records", ("target", "0")] >= 1
    lag = "kafka_cluster_partition_laststableoffsetlag"
    assert numbers[lag, ("target", "0")] >= 1


def test_one_request_ends_the_transactions_of_several_producers(ask, broker):
    """In the partitions of several topics, and in those of groups."""
    broker.create_topics({"ended": 1})
    topic = image_of(broker, "ended")
    groups = broker.node.broker.coordinators.groups
    markers = []
    for name, is_commit in (("ends well", True), ("ends badly", False)):
        producer_id, epoch = initialize(ask, name)
        request = produce_request(topic, batch(producer_id, epoch, 0), transactional_id=name)
        assert code_of(ask(request, ProduceResponse)) is OK
        offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=33)
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=name,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name="target", partitions=[offset])],
        )
        answer = ask(request, TxnOffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code == OK
        places = {"ended": 0, "__consumer_offsets": groups.partition_for(name), "missing": 4}
        markers.append(
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch + 1,
                transaction_result=is_commit,
                transaction_version=2,
                coordinator_epoch=9,
                topics=[
                    WritableTxnMarkerTopic(name=each, partition_indexes=[index])
                    for each, index in places.items()
                ],
            )
        )
    log = broker.node.broker.replicas.find("ended", 0).log
    assert log.last_stable_offset < log.high_watermark
    answer = ask(WriteTxnMarkersRequest(markers=markers), WriteTxnMarkersResponse)
    codes = {"ended": OK, "__consumer_offsets": OK, "missing": UNKNOWN}
    assert {
        result.producer_id: {each.name: each.partitions[0].error_code for each in result.topics}
        for result in answer.markers
    } == {marker.producer_id: codes for marker in markers}
    assert log.last_stable_offset == log.high_watermark
    offsets = {group: offset for group, _, _, offset in groups.committed_offsets()}
    assert offsets["ends well"] == 33
    assert "ends badly" not in offsets
