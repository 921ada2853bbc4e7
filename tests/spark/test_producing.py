"""Retries: in order, without duplicates, for a limited time; with scripted brokers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque

import pytest
from tests.client.fake_broker import Disconnect, FakeBroker

from odradek.arrow.encoding import EncodedRecords
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, RequestTimeoutError
from odradek.client.producer.transactions import TransactionalProducer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import RecordBatch
from odradek.spark.options import write_options
from odradek.spark.producing import Sender
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.generated.api_versions_response import FinalizedFeatureKey
from odradek.wire.generated.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OK = ErrorCode.NONE
PRODUCE, ADD_PARTITIONS = 0, 24
TIMEOUT_MS = 5_000


class Unheard(Disconnect):
    """The batches are written, but the answer is lost."""


class PlayedBroker(FakeBroker):
    """A leader of everything that keeps to a script: an error code, or an exception, by request.

    The exception is raised before the batches are written, or after it for `Unheard`. What is accepted
    is in `log` as (first sequence, number of records) by partition; a repeated sequence is accepted
    and not written again, a gap is refused, but any first one is taken, as brokers do.
    """

    def __init__(self, script=(), transaction_version=0):
        super().__init__()
        self.topics["t"] = 2
        self.script = deque(script)
        self.log: dict[int, list[tuple[int, int]]] = {}
        self.added = []
        self._lock = threading.Lock()
        self._transaction_version = transaction_version
        self.answers[PRODUCE] = self._produce
        self.answers[ADD_PARTITIONS] = self._add

    def api_versions(self, **changed):
        response = super().api_versions(**changed)
        feature = FinalizedFeatureKey(
            name="transaction.version", max_version_level=self._transaction_version
        )
        response.finalized_features_epoch = 1
        response.finalized_features = [feature] if self._transaction_version else []
        return response

    def _add(self, request):
        self.added.append(request.v3_and_below_topics[0].partitions)
        return AddPartitionsToTxnResponse()

    def _produce(self, request):
        with self._lock:
            act = self.script.popleft() if self.script else OK
            if isinstance(act, Exception) and not isinstance(act, Unheard):
                raise act
            answers = []
            for data in request.topic_data[0].partition_data:
                is_written = isinstance(act, Unheard) or not act
                code = self._append(data.index, RecordBatch(data.records)) if is_written else act
                answers.append(PartitionProduceResponse(index=data.index, error_code=code))
            if isinstance(act, Unheard):
                raise act
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

    @property
    def produce_count(self):
        return len(self.requests[PRODUCE])


@pytest.fixture
def played():
    """Makes played brokers and clusters, which end with the test."""
    with contextlib.ExitStack() as stack:

        def play(script=(), **options):
            return stack.enter_context(PlayedBroker(script, **options))

        play.cluster = lambda broker: stack.enter_context(
            Cluster(broker.address, timeout_ms=TIMEOUT_MS)
        )
        yield play


@pytest.fixture
def sender(played):
    def make(script=(), transaction=None, transaction_version=0, **options):
        broker = played(script, transaction_version=transaction_version)
        settings = {
            "bootstrap.servers": broker.address,
            "request.timeout.ms": str(TIMEOUT_MS),
            **options,
        }
        return broker, Sender(played.cluster(broker), write_options(settings), transaction)

    return make


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


def test_batches_are_under_way_together_and_all_arrive(sender):
    broker, writer = sender()
    for _ in range(6):
        writer.send({T0: records(1)}, 1)
    writer.flush()
    assert broker.log == {0: [(n, 1) for n in range(6)]}


@pytest.mark.parametrize("failures", [1, 2, 4])
@pytest.mark.parametrize("first", [0, 1, 5])
@pytest.mark.parametrize(
    "failure", [ErrorCode.NOT_LEADER_OR_FOLLOWER, Disconnect("gone"), Unheard("gone")], ids=str
)
def test_what_failed_is_sent_again_in_order(sender, failure, first, failures):
    broker, writer = sender([OK] * first + [failure] * failures)
    send_all(writer)
    assert broker.log == EXPECTED


def test_what_is_refused_for_good_is_raised(sender):
    """A batch of one record cannot be divided."""
    _, writer = sender([OK, ErrorCode.MESSAGE_TOO_LARGE])
    send_all(writer, rounds=1)
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE") as raised:
        send_all(writer, rounds=1)
    assert raised.value.advice


def test_it_gives_up_and_says_why(sender):
    _, writer = sender([ErrorCode.NOT_ENOUGH_REPLICAS] * 100, **{"request.timeout.ms": "200"})
    writer.send({T0: records(1)}, 1)
    with pytest.raises(RequestTimeoutError, match=r"t-0: not written within .*NOT_ENOUGH_REPLICAS"):
        writer.flush()


def test_without_idempotence_there_are_no_sequences(sender):
    broker, writer = sender(acks="1")
    send_all(writer, rounds=2)
    assert broker.log == {0: [(-1, 1), (-1, 2)], 1: [(-1, 1), (-1, 1)]}


def test_without_acks_nothing_is_awaited(sender):
    broker, writer = sender(acks="0")
    broker.answers[PRODUCE] = lambda request: broker._produce(request) and None
    send_all(writer, rounds=7)
    while len(broker.log.get(0, ())) < 7:
        time.sleep(0.01)  # nobody has said when they arrive


def test_a_first_batch_with_a_wrong_sequence_is_that_of_another_task(sender):
    broker, writer = sender(
        [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER], TransactionalProducer("id", 7, 3), 2
    )
    with pytest.raises(BrokerError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        send_all(writer)
    assert broker.produce_count == 1


@pytest.mark.parametrize(("level", "added", "version"), [(1, [[0], [1]], 11), (2, [], 12)])
def test_partitions_join_a_transaction_by_the_rules_of_the_cluster(sender, level, added, version):
    broker, writer = sender((), TransactionalProducer("id", 7, 3), level)
    for partition in (T0, T1, T0):
        writer.send({partition: records(2)}, 1)
        writer.flush()
    assert broker.added == added
    assert set(broker.versions[PRODUCE]) == {version}
    assert broker.log == {0: [(0, 2), (2, 2)], 1: [(0, 2)]}
    assert writer.partitions == {T0, T1}
