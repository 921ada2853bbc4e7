"""Retries: in order, without duplicates, for a limited time; with scripted brokers."""

from __future__ import annotations

from collections import deque

import pytest

from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, DisconnectedError
from odradek.client.transactions import TransactionalProducer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import RecordBatch
from odradek.spark.encoding import EncodedRecords
from odradek.spark.options import write_options
from odradek.spark.producing import ROUNDS_IN_FLIGHT, Sender
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.generated.api_versions_response import ApiVersionsResponse, FinalizedFeatureKey
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OK = ErrorCode.NONE


class PlayedBroker:
    """A leader of everything that keeps to a script: an error code, or an exception, by request.

    What is accepted is in `log` as (partition, first sequence, number of records); a repeated
    sequence is accepted and not written again, a gap is refused, but any first one is taken, as
    brokers do.
    """

    def __init__(self, script=()):
        self.script = deque(script)
        self.log: dict[int, list[tuple[int, int]]] = {}
        self.requests = 0
        self.version_max = None
        self.added = []
        self.features = ApiVersionsResponse()

    def request(self, request, response_class, timeout_ms):
        assert response_class is InitProducerIdResponse
        return InitProducerIdResponse(error_code=0, producer_id=7, producer_epoch=0)

    def send(self, request, response_class, version_max=None):
        if response_class is AddPartitionsToTxnResponse:
            self.added.append(request.v3_and_below_topics[0].partitions)
            return AddPartitionsToTxnResponse()
        self.requests += 1
        self.version_max = version_max
        act = self.script.popleft() if self.script else OK
        if isinstance(act, Exception):
            return act
        answers = []
        for data in request.topic_data[0].partition_data:
            code = act or self._append(data.index, RecordBatch(data.records))
            answers.append(PartitionProduceResponse(index=data.index, error_code=code))
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=answers)]
        )

    def _append(self, index, batch):
        batch.check()
        log = self.log.setdefault(index, [])
        following = sum(count for _, count in log)
        if batch.producer_id < 0 or batch.base_sequence == following or not log:
            log.append((batch.base_sequence, batch.count))
        elif (batch.base_sequence, batch.count) not in log:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return OK

    def send_unanswered(self, request):
        self.send(request, None)

    def receive(self, pending, timeout_ms):
        if isinstance(pending, Exception):
            raise pending
        return pending


class PlayedCluster(Cluster):
    """A client whose only broker is played."""

    def __init__(self, broker):
        super().__init__("nowhere:1")
        self.broker = broker

    def any(self):
        return self.broker

    def node(self, node_id, purpose=""):
        return self.broker

    def coordinator(self, key, kind=0):
        return self.broker

    def leader(self, topic_partition):
        return 1


def sender(script=(), **options):
    broker = PlayedBroker(script)
    settings = {"bootstrap.servers": "nowhere:1", "request.timeout.ms": "2000", **options}
    return broker, Sender(PlayedCluster(broker), write_options(settings))


def records(count):
    return EncodedRecords(memoryview(b"x" * 10 * count), count)


def send_all(writer, rounds=8):
    for number in range(rounds):
        writer.send({T0: records(number + 1), T1: records(1)}, 1)
    writer.flush()


EXPECTED = {
    0: [(sum(range(1, n + 1)), n + 1) for n in range(8)],
    1: [(n, 1) for n in range(8)],
}


def test_rounds_are_under_way_together_and_all_arrive():
    broker, writer = sender()
    awaited = []
    receive = broker.receive
    broker.receive = lambda pending, timeout_ms: awaited.append(1) or receive(pending, timeout_ms)
    for _ in range(ROUNDS_IN_FLIGHT + 1):
        writer.send({T0: records(1)}, 1)
    assert (broker.requests, len(awaited)) == (ROUNDS_IN_FLIGHT + 1, 1), "the first goes alone"
    writer.flush()
    assert broker.log == {0: [(n, 1) for n in range(ROUNDS_IN_FLIGHT + 1)]}


@pytest.mark.parametrize("failures", [1, 2, 4])
@pytest.mark.parametrize("first", [0, 1, 5])
@pytest.mark.parametrize(
    "failure", [ErrorCode.NOT_LEADER_OR_FOLLOWER, DisconnectedError("gone")], ids=str
)
def test_what_failed_is_sent_again_in_order(failure, first, failures):
    broker, writer = sender([OK] * first + [failure] * failures)
    send_all(writer)
    assert broker.log == EXPECTED


def test_an_answer_that_was_lost_does_not_write_twice():
    broker, writer = sender()
    receive, lost = broker.receive, [2, 5]

    def losing(pending, timeout_ms):
        lost[:] = [n - 1 for n in lost]
        if 0 in lost:
            raise DisconnectedError("the answer is lost")
        return receive(pending, timeout_ms)

    broker.receive = losing
    send_all(writer)
    assert broker.log == EXPECTED


def test_what_is_refused_for_good_is_raised():
    _, writer = sender([OK, ErrorCode.MESSAGE_TOO_LARGE])
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE") as raised:
        send_all(writer)
    assert raised.value.advice


def test_it_gives_up_and_says_why():
    _, writer = sender([ErrorCode.NOT_ENOUGH_REPLICAS] * 100)
    writer.send({T0: records(1)}, 1)
    with pytest.raises(BrokerError, match=r"t-0: not written in time; .*NOT_ENOUGH_REPLICAS"):
        writer.flush()


def test_without_idempotence_there_are_no_sequences():
    broker, writer = sender(acks="1")
    send_all(writer, rounds=2)
    assert broker.log == {0: [(-1, 1), (-1, 2)], 1: [(-1, 1), (-1, 1)]}


def test_without_acks_nothing_is_awaited():
    broker, writer = sender(acks="0")
    broker.receive = None
    send_all(writer, rounds=7)
    assert len(broker.log[0]) == 7


def test_a_first_batch_with_a_wrong_sequence_is_that_of_another_task():
    broker, writer = sender([ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
    writer.send({T0: records(1)}, 1)
    with pytest.raises(BrokerError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        writer.flush()
    assert broker.requests == 1


@pytest.mark.parametrize(("level", "added", "version"), [(1, [[0], [1]], 11), (2, [], 12)])
def test_partitions_join_a_transaction_by_the_rules_of_the_cluster(level, added, version):
    broker = PlayedBroker()
    feature = FinalizedFeatureKey(name="transaction.version", max_version_level=level)
    broker.features = ApiVersionsResponse(finalized_features=[feature])
    options = write_options({"bootstrap.servers": "nowhere:1"})
    producer = TransactionalProducer("id", 7, 3)
    writer = Sender(PlayedCluster(broker), options, producer)
    for partition in (T0, T1, T0):
        writer.send({partition: records(2)}, 1)
    writer.flush()
    assert (broker.added, broker.version_max) == (added, version)
    assert broker.log == {0: [(0, 2), (2, 2)], 1: [(0, 2)]}
    assert writer.partitions == {T0, T1}
