"""Transactional batches in pipelined requests."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from tests.support.run_seed import seeds

from odradek.broker.coordinator.coordinator import settled
from odradek.client.cluster import Cluster
from odradek.model.errors import ErrorCode
from odradek.records.builder import RecordBatchBuilder
from odradek.testing import Broker
from odradek.wire.generated.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.generated.describe_transactions_response import DescribeTransactionsResponse
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
PARTITIONS = 3
STEPS = 120
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


def produce_request(topic, *records, transactional_id=ID):
    """With the records of partition 0, 1, ..."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                topic_id=topic.id,
                partition_data=[
                    PartitionProduceData(index=index, records=each)
                    for index, each in enumerate(records)
                ],
            )
        ],
    )


def end_request(producer_id, epoch, committed=True):
    return EndTxnRequest(
        transactional_id=ID, producer_id=producer_id, producer_epoch=epoch, committed=committed
    )


def image_of(broker, topic):
    return broker.node.broker.metadata.image.topics.by_name[topic]


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
def slow_down(broker, monkeypatch):
    """Called, it makes the coordinator answer late when partitions are to be added."""
    transactions = broker.node.broker.coordinators.transactions
    add = transactions.add_partitions

    async def later(*question):
        await asyncio.sleep(0.002)
        return await settled(add(*question))

    def ask(*question):
        return asyncio.get_running_loop().create_task(later(*question))

    return lambda: monkeypatch.setattr(transactions, "add_partitions", ask)


@pytest.fixture
def topic(broker):
    return image_of(broker, "target")


def initialize(connection):
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=TIMEOUT_MS)
    answer = connection.request(request, InitProducerIdResponse, TIMEOUT_MS)
    assert not answer.error_code
    return answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("is_slow", [False, True])
def test_requests_of_a_producer_keep_their_order(connection, topic, slow_down, is_slow):
    """Those behind the first of a transaction wait with it, however long the coordinator takes."""
    if is_slow:
        slow_down()
    producer_id, epoch = initialize(connection)
    for _ in range(TRANSACTIONS):
        requests = [
            produce_request(topic, batch(producer_id, epoch, sequence))
            for sequence in range(IN_FLIGHT)
        ]
        pending = [connection.send(request, ProduceResponse) for request in requests]
        codes = [code_of(connection.receive(each, TIMEOUT_MS)) for each in pending]
        while codes[0] is ErrorCode.CONCURRENT_TRANSACTIONS:  # on a slow machine
            pending = [connection.send(request, ProduceResponse) for request in requests]
            codes = [code_of(connection.receive(each, TIMEOUT_MS)) for each in pending]
        assert codes == [ErrorCode.NONE] * IN_FLIGHT
        ended = connection.request(end_request(producer_id, epoch), EndTxnResponse, TIMEOUT_MS)
        assert not ended.error_code
        producer_id, epoch = ended.producer_id, ended.producer_epoch


def test_a_transactional_batch_without_an_id_is_refused(connection, topic):
    producer_id, epoch = initialize(connection)
    request = produce_request(topic, batch(producer_id, epoch, 0), transactional_id=None)
    answer = connection.request(request, ProduceResponse, TIMEOUT_MS)
    assert code_of(answer) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_producer_that_the_coordinator_does_not_know_is_refused(connection, topic):
    producer_id, epoch = initialize(connection)
    answers = [
        connection.request(produce_request(topic, batch(*producer, 0)), ProduceResponse, TIMEOUT_MS)
        for producer in ((producer_id + 9, 0), (producer_id, epoch + 1))
    ]
    assert [code_of(each) for each in answers] == [
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ]


def play(connection, topic, seed):
    """What a producer hears that makes mistakes: epochs and sequence numbers that are off."""
    drawn = random.Random(seed)
    producer_id, epoch = initialize(connection)
    sequences = [0] * PARTITIONS
    heard = []
    for _ in range(STEPS):
        if drawn.random() < 0.3:
            end = end_request(producer_id, epoch, committed=drawn.random() < 0.8)
            ended = connection.request(end, EndTxnResponse, TIMEOUT_MS)
            heard.append(ended.error_code)
            if not ended.error_code:
                producer_id, epoch = ended.producer_id, ended.producer_epoch
                sequences = [0] * PARTITIONS
                wait_until_complete(connection)
            continue
        late, off = drawn.choice((0, 0, 0, 0, -1, 1)), drawn.choice((0, 0, 0, 0, -1, 1))
        count = drawn.randint(1, PARTITIONS)
        records = [batch(producer_id, epoch + late, max(0, at + off)) for at in sequences[:count]]
        request = produce_request(topic, *records)
        pending = [connection.send(request, ProduceResponse) for _ in range(drawn.randint(1, 2))]
        for each in pending:
            answer = connection.receive(each, TIMEOUT_MS)
            results = answer.responses[0].partition_responses
            heard += [(at.index, at.error_code, at.base_offset) for at in results]
        for at in results:
            if not at.error_code and not off:
                sequences[at.index] += 1
    connection.request(end_request(producer_id, epoch), EndTxnResponse, TIMEOUT_MS)
    wait_until_complete(connection)
    return heard


def wait_until_complete(connection):
    """The markers of an ended transaction are written later; until then its id is busy."""
    request = DescribeTransactionsRequest(transactional_ids=[ID])
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    while time.monotonic() < deadline:
        answer = connection.request(request, DescribeTransactionsResponse, TIMEOUT_MS)
        if not answer.transaction_states[0].transaction_state.startswith("Prepare"):
            return
    raise AssertionError("the transaction was not completed")


@pytest.mark.parametrize("seed", seeds(3))
def test_a_slow_coordinator_changes_nothing_for_producers(broker, connection, slow_down, seed):
    """What is asked and appended at once comes to the same as what waits for its turn."""
    broker.create_topics({f"prompt-{seed}": PARTITIONS, f"slow-{seed}": PARTITIONS})
    heard = play(connection, image_of(broker, f"prompt-{seed}"), seed)
    slow_down()
    assert play(connection, image_of(broker, f"slow-{seed}"), seed) == heard
    assert sum(each[1] == ErrorCode.NONE for each in heard if isinstance(each, tuple)) > STEPS / 3
