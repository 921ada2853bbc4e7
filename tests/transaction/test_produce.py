"""Transactional batches in requests that do not wait for one another."""

from __future__ import annotations

import pytest

from odradek.client.cluster import Cluster
from odradek.model.errors import ErrorCode
from odradek.records.builder import RecordBatchBuilder
from odradek.testing import Broker
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.end_txn_response import EndTxnResponse
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

ID = "pipelines"
TRANSACTIONS = 60
IN_FLIGHT = 5
TIMEOUT_MS = 20_000


def batch(producer_id, epoch, sequence):
    builder = RecordBatchBuilder(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    builder.append(1_700_000_000_000, b"key", b"%d" % sequence)
    return bytes(builder.build())


def produce_request(topic_id, records, transactional_id=ID):
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name="target",
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=0, records=records)],
            )
        ],
    )


def code_of(response):
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"target": 1}) as broker:
        yield broker


@pytest.fixture
def connection(broker):
    with Cluster(broker.bootstrap_servers) as cluster:
        cluster.coordinator(ID, 1)
        yield cluster.any()


@pytest.fixture
def topic_id(broker):
    return broker.node.broker.metadata.image.topics.by_name["target"].id


def initialize(connection):
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=TIMEOUT_MS)
    answer = connection.request(request, InitProducerIdResponse, TIMEOUT_MS)
    assert not answer.error_code
    return answer.producer_id, answer.producer_epoch


def test_requests_of_a_producer_keep_their_order(connection, topic_id):
    """Those behind the first of a transaction wait with it, however long the coordinator takes."""
    producer_id, epoch = initialize(connection)
    for _ in range(TRANSACTIONS):
        requests = [
            produce_request(topic_id, batch(producer_id, epoch, sequence))
            for sequence in range(IN_FLIGHT)
        ]
        pending = [connection.send(request, ProduceResponse) for request in requests]
        codes = [code_of(connection.receive(each, TIMEOUT_MS)) for each in pending]
        while codes[0] is ErrorCode.CONCURRENT_TRANSACTIONS:  # on a slow machine
            pending = [connection.send(request, ProduceResponse) for request in requests]
            codes = [code_of(connection.receive(each, TIMEOUT_MS)) for each in pending]
        assert codes == [ErrorCode.NONE] * IN_FLIGHT
        end = EndTxnRequest(
            transactional_id=ID, producer_id=producer_id, producer_epoch=epoch, committed=True
        )
        ended = connection.request(end, EndTxnResponse, TIMEOUT_MS)
        assert not ended.error_code
        producer_id, epoch = ended.producer_id, ended.producer_epoch


def test_a_transactional_batch_without_an_id_is_refused(connection, topic_id):
    producer_id, epoch = initialize(connection)
    request = produce_request(topic_id, batch(producer_id, epoch, 0), transactional_id=None)
    answer = connection.request(request, ProduceResponse, TIMEOUT_MS)
    assert code_of(answer) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_producer_that_the_coordinator_does_not_know_is_refused(connection, topic_id):
    producer_id, epoch = initialize(connection)
    answers = [
        connection.request(
            produce_request(topic_id, batch(*producer, 0)), ProduceResponse, TIMEOUT_MS
        )
        for producer in ((producer_id + 9, 0), (producer_id, epoch + 1))
    ]
    assert [code_of(each) for each in answers] == [
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ]
