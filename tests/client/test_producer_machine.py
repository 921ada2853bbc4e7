"""The producer's machines without a network: answers are given by hand, in any order."""

from __future__ import annotations

import random

import pytest
from tests.support.run_seed import seeds

from odradek.client.core.asks import Ask
from odradek.client.core.producer import ProducerMachine
from odradek.client.core.producer_settings import ProducerSettings
from odradek.client.core.routes import Routes
from odradek.client.errors import BrokerError, DisconnectedError, RequestTimeoutError
from odradek.model.errors import ErrorCode as E
from odradek.records.batch import RecordBatch
from odradek.records.record import iterate_records
from odradek.wire.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.generated.api_versions_response import ApiVersionsResponse, FinalizedFeatureKey
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.end_txn_response import EndTxnResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import Coordinator, FindCoordinatorResponse
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.generated.produce_request import ProduceRequest
from odradek.wire.generated.produce_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)


class Lab:
    """A machine, and brokers that answer all but Produce at once. Time passes by hand."""

    def __init__(self, *, version=0, seed=1, partitions=2, **settings):
        draw = random.Random(seed)
        self.now = 1_000
        self.routes = Routes(lambda: draw.getrandbits(31))
        settings = {"batch_bytes": 1, "linger_ms": 0, **settings}
        self.done = []
        self.machine = ProducerMachine(
            ProducerSettings(**settings),
            self.routes,
            self.routes.random,
            on_batch=self.done.append,
        )
        self.asks: list[Ask] = []
        """Produce requests without an answer."""
        self.asked = []
        self.epoch = 0
        self.leader = 1
        self.partitions = partitions
        self.version = version
        self.refusals = {}
        """Error codes for the next answers, by class of request."""
        feature = FinalizedFeatureKey(name="transaction.version", max_version_level=version)
        versions = ApiVersionsResponse(finalized_features=[feature] if version else [])
        versions.finalized_features_epoch = 1
        for link in ((1, ""), (2, ""), (1, "coordinator")):
            self.routes.opened(link, versions)
        self.machine.records.topic("t", self.now)
        self.poll()

    def poll(self):
        while True:
            some = self.machine.poll(self.now) + self.routes.poll(self.now)
            if not some:
                return
            for ask in some:
                if isinstance(ask.request, ProduceRequest):
                    self.asks.append(ask)
                else:
                    self.asked.append(ask.request)
                    ask.on_answer(self.answer(ask.request), self.now)

    def answer(self, request):
        code = 0
        if self.refusals.get(type(request)):
            code = self.refusals[type(request)].pop(0)
        if isinstance(request, MetadataRequest):
            return MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=n, host="h", port=n) for n in (1, 2)],
                topics=[
                    MetadataResponseTopic(
                        name="t",
                        partitions=[
                            MetadataResponsePartition(
                                partition_index=index, leader_id=self.leader, leader_epoch=1
                            )
                            for index in range(self.partitions)
                        ],
                    )
                ],
            )
        if isinstance(request, FindCoordinatorRequest):
            found = Coordinator(key=request.coordinator_keys[0], node_id=1, host="h", port=1)
            return FindCoordinatorResponse(coordinators=[found])
        if isinstance(request, InitProducerIdRequest):
            if not code:
                self.epoch += request.producer_id >= 0
            return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=self.epoch)
        if isinstance(request, AddPartitionsToTxnRequest):
            return AddPartitionsToTxnResponse()
        assert isinstance(request, EndTxnRequest)
        if self.version >= 2:
            self.epoch += 1
            return EndTxnResponse(error_code=code, producer_id=7, producer_epoch=self.epoch)
        return EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1)

    def send(self, value=b"v", partition=0):
        topic = self.machine.records.topic("t", self.now)
        found = self.machine.records.append(topic, partition, None, value, None, 1, self.now)
        self.poll()
        return found

    def data(self, place=0):
        """The bytes of a request in flight."""
        return self.asks[place].request.topic_data[0].partition_data[0].records

    def batch(self, place=0):
        return RecordBatch(self.data(place))

    def give(self, code=0, *, place=0, offset=0, **fields):
        """Answers a request in flight."""
        ask = self.asks.pop(place)
        (topic,) = ask.request.topic_data
        answers = [
            PartitionProduceResponse(
                index=p.index, error_code=code, base_offset=-1 if code else offset, **fields
            )
            for p in topic.partition_data
        ]
        response = ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=answers)],
            node_endpoints=[NodeEndpoint(node_id=2, host="h", port=2)],
        )
        ask.on_answer(response, self.now)
        self.poll()

    def lose(self, place=0):
        self.asks.pop(place).on_error(DisconnectedError("gone"), self.now)
        self.poll()

    def wait(self, ms):
        self.now += ms
        self.poll()

    def sequence(self, place=0):
        batch = self.batch(place)
        return batch.producer_epoch, batch.base_sequence


def established(count=0, **settings):
    """A lab whose first batch is acknowledged, and `count` batches in flight."""
    lab = Lab(**settings)
    lab.send()
    lab.give()
    for _ in range(count):
        lab.send()
    return lab


def test_five_are_in_flight_after_the_first_one():
    lab = Lab()
    for _ in range(7):
        lab.send()
    assert [lab.sequence(n) for n in range(len(lab.asks))] == [(0, 0)]
    lab.give()
    assert [lab.sequence(n) for n in range(len(lab.asks))] == [(0, n) for n in range(1, 6)]


def test_a_retry_is_the_same_bytes_and_alone():
    lab = established(3)
    first = bytes(lab.data())
    lab.lose()
    assert len(lab.asks) == 2, "the lost one waits for those after it"
    lab.give(E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    lab.give(E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert not lab.asks
    lab.wait(200)
    assert [bytes(lab.data(n)) for n in range(len(lab.asks))] == [first]
    lab.send()
    lab.give(E.DUPLICATE_SEQUENCE_NUMBER)
    assert lab.done[1].error is None
    assert lab.done[1].base_offset == -1
    assert lab.sequence() == (0, 2)


def test_a_gap_after_all_others_were_acknowledged_gets_a_new_epoch():
    lab = established(2)
    lab.give(E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    lab.give(E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    lab.wait(200)
    assert lab.sequence() == (1, 0)
    lab.give()
    assert lab.sequence() == (1, 1)


@pytest.mark.parametrize(("log_start", "expected"), [(-1, (0, 1)), (5, (1, 0))])
def test_an_unknown_producer_id(log_start, expected):
    lab = established(1)
    lab.give(E.UNKNOWN_PRODUCER_ID, log_start_offset=log_start)
    lab.wait(200)
    assert lab.sequence() == expected


def test_after_a_final_error_only_that_partition_is_renumbered():
    lab = established(2)
    lab.send(partition=1)
    lab.give(place=2)
    lab.send(partition=1)
    lab.give(E.MESSAGE_TOO_LARGE)
    assert isinstance(lab.done[2].error, BrokerError)
    lab.give(E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    lab.lose()  # that of the other partition: it keeps its number and its epoch
    lab.wait(200)
    found = sorted(
        (p.index, RecordBatch(p.records).producer_epoch, RecordBatch(p.records).base_sequence)
        for ask in lab.asks
        for p in ask.request.topic_data[0].partition_data
    )
    assert found == [(0, 1, 0), (1, 0, 1)]
    while lab.asks:
        lab.give()
    lab.send(partition=1)
    assert lab.sequence() == (1, 0), "the other partition changes when nothing is in flight"


@pytest.mark.parametrize("is_written", [True, False])
def test_an_expired_batch_leaves_the_sequence_unresolved(is_written):
    lab = established(2, delivery_timeout_ms=1_000)
    lab.wait(500)
    later = lab.send()
    lab.asks.pop(0)  # it never gets an answer
    lab.wait(500)
    assert [batch.error is None for batch in lab.done] == [True, False, False]
    assert isinstance(lab.done[1].error, RequestTimeoutError)
    new = lab.send()
    assert [lab.sequence(n) for n in range(2)] == [(0, 2), (0, 3)], "nothing new is sent"
    lab.asks.pop(0)
    lab.give(0 if is_written else E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    lab.wait(200)
    if is_written:
        assert later.done
        assert lab.sequence() == (0, 4)
    else:
        assert lab.sequence() == (1, 0)
        lab.give()
        assert lab.sequence() == (1, 1)
    while lab.asks:
        lab.give()
    assert later.error is None
    assert new.error is None


def test_the_leader_in_an_error_is_used_at_once():
    lab = established(1)
    lab.give(E.NOT_LEADER_OR_FOLLOWER, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=9))
    assert [ask.link for ask in lab.asks] == [(2, "")]
    before = len(lab.asked)
    lab.give()
    assert len(lab.asked) == before


def test_a_missing_right_is_final():
    lab = established(2)
    lab.give(E.CLUSTER_AUTHORIZATION_FAILED)
    assert isinstance(lab.machine.error, BrokerError)
    assert all(batch.error is lab.machine.error for batch in lab.done[1:])
    lab.give(0)  # the late answer to the other one changes nothing


def test_without_idempotence_and_with_one_in_flight_order_is_kept():
    lab = Lab(is_idempotent=False, acks=1, in_flight_max=1)
    for n in range(3):
        lab.send(b"%d" % n)
    values = []
    lab.lose()
    while not values or len(values) < 3:
        lab.wait(200)
        values += [record.value for record in iterate_records(lab.batch())]
        lab.give()
    assert values == [b"0", b"1", b"2"]


def test_the_buffer_is_empty_in_the_end():
    lab = established(5, delivery_timeout_ms=1_000)
    lab.lose(1)
    lab.give(E.MESSAGE_TOO_LARGE)
    lab.wait(5_000)
    assert lab.machine.records.buffered_bytes == 0
    assert not lab.machine.has_batches


@pytest.mark.parametrize("seed", seeds(40))
def test_any_answers_leave_each_record_once_and_in_order(seed):
    """A log that checks sequences as brokers do, whose answers are lost, late, or errors."""
    draw = random.Random(seed)
    lab = Lab(seed=seed, batch_bytes=draw.choice([1, 300]), delivery_timeout_ms=10**9)
    state, written = {"limit": draw.choice([1_000, 120])}, {0: [], 1: []}
    sent = {0: [], 1: []}
    for number in range(60):
        partition = draw.randrange(2)
        sent[partition].append(b"%d" % number)
        lab.send(b"%d" % number, partition)
        while lab.asks and draw.random() < 0.6:
            kind = draw.choice(["ok", "ok", "lost", "unheard", "error"])
            append_all(lab, state, written, kind)
    while lab.machine.has_batches:
        lab.machine.records.flush()
        lab.wait(200)
        if lab.asks:
            append_all(lab, state, written, draw.choice(["ok", "unheard"]))
    assert written == sent
    assert all(batch.error is None for batch in lab.done)


def append_all(lab, state, written, kind):
    """The oldest request arrives, as in one connection."""
    ask = lab.asks[0]
    codes = {}
    for data in ask.request.topic_data[0].partition_data:
        batch = RecordBatch(data.records)
        batch.check()
        key = data.index, batch.producer_id, batch.producer_epoch
        expected = state.get(key)
        if kind in ("lost", "error"):
            codes[data.index] = E.NOT_ENOUGH_REPLICAS
        elif batch.size > state["limit"]:
            codes[data.index] = E.MESSAGE_TOO_LARGE
        elif expected is None or batch.base_sequence == expected:
            state[key] = batch.base_sequence + batch.count
            written[data.index] += [record.value for record in iterate_records(batch)]
        elif batch.base_sequence < expected:
            codes[data.index] = E.DUPLICATE_SEQUENCE_NUMBER
        else:
            codes[data.index] = E.OUT_OF_ORDER_SEQUENCE_NUMBER
    if kind in ("lost", "unheard"):
        lab.lose()
        return
    lab.asks.pop(0)
    answers = [
        PartitionProduceResponse(index=p.index, error_code=codes.get(p.index, 0))
        for p in ask.request.topic_data[0].partition_data
    ]
    topic = TopicProduceResponse(name="t", partition_responses=answers)
    ask.on_answer(ProduceResponse(responses=[topic]), lab.now)
    lab.poll()


def test_a_batch_that_is_too_large_is_divided_until_it_fits():
    lab = Lab(batch_bytes=2_000, linger_ms=1)
    lab.send()
    lab.wait(5)
    lab.give()
    sent = [lab.send(b"%d" % number * 20) for number in range(10)]
    lab.wait(5)
    later = lab.send(b"later")
    lab.wait(5)
    values, place = [], 1
    lab.give(E.MESSAGE_TOO_LARGE)
    lab.give(E.OUT_OF_ORDER_SEQUENCE_NUMBER)
    while lab.machine.has_batches:
        lab.wait(100)
        batch = lab.batch()
        assert (len(lab.asks), batch.base_sequence) == (1, place)
        if batch.count > 2:
            lab.give(E.MESSAGE_TOO_LARGE)
            continue
        found = [record.value for record in iterate_records(batch)]
        values += found
        lab.give(offset=100 + 2 * place)
        place += len(found)
    assert values == [*(b"%d" % number * 20 for number in range(10)), b"later"]
    assert all(each.done and each.error is None for each in (*sent, later))
    assert sent[0].offset == 102
    assert [each.offset - sent[0].offset for each in sent] != list(range(10))  # others came between
    assert len({each.offset for each in (*sent, later)}) == 11
    assert lab.machine.records.buffered_bytes == 0
    assert lab.epoch == 0


# -- transactions -----------------------------------------------------------------------------


def begun(version, **settings):
    lab = Lab(version=version, transactional_id="x", **settings)
    transaction = lab.machine.transaction
    operation = transaction.init()
    lab.poll()
    assert operation.done
    transaction.begin()
    return lab, transaction


def end(lab, transaction, *, is_commit):
    operation = transaction.end(is_commit=is_commit)
    lab.poll()
    return operation


def named(lab):
    return [type(each).__name__ for each in lab.asked if not isinstance(each, MetadataRequest)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_by_the_rules_of_each_version(version):
    lab, transaction = begun(version)
    lab.send()
    assert [ask.version_max for ask in lab.asks] == [11 if version == 1 else 12]
    operation = end(lab, transaction, is_commit=True)
    assert not operation.done, "a batch is not acknowledged"
    lab.give()
    assert operation.done
    assert operation.error is None
    added = ["AddPartitionsToTxnRequest"] if version == 1 else []
    assert named(lab) == [
        "FindCoordinatorRequest",
        "InitProducerIdRequest",
        *added,
        "EndTxnRequest",
    ]
    transaction.begin()
    lab.send()
    assert lab.sequence() == ((0, 1) if version == 1 else (1, 0))


@pytest.mark.parametrize("version", [1, 2])
def test_an_empty_transaction_needs_no_request(version):
    lab, transaction = begun(version)
    before = len(lab.asked)
    assert end(lab, transaction, is_commit=True).done
    assert len(lab.asked) == before


@pytest.mark.parametrize("version", [1, 2])
def test_after_an_abortable_error_the_next_transaction_has_a_new_epoch(version):
    lab, transaction = begun(version)
    failed = lab.send()
    unsent = lab.send()
    lab.give(E.MESSAGE_TOO_LARGE)
    lab.poll()
    assert "MESSAGE_TOO_LARGE" in str(failed.error)
    assert "cannot be committed" in str(unsent.error)
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
        transaction.end(is_commit=True)
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
        transaction.check_send()
    assert end(lab, transaction, is_commit=False).error is None
    assert ("InitProducerIdRequest" in named(lab)[2:]) == (version == 1)
    transaction.begin()
    lab.send()
    assert lab.sequence() == (1, 0)


@pytest.mark.parametrize("code", [E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_is_told_who_is_at_fault(code):
    lab, transaction = begun(2)
    lab.send()
    lab.give()
    lab.refusals[EndTxnRequest] = [code]
    operation = end(lab, transaction, is_commit=True)
    assert isinstance(operation.error, BrokerError)
    assert operation.error.code == E.PRODUCER_FENCED
    assert "transactional.id" in operation.error.advice
    with pytest.raises(BrokerError, match="PRODUCER_FENCED"):
        transaction.begin()


@pytest.mark.parametrize("code", [E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR])
def test_the_end_is_repeated_until_there_is_an_answer(code):
    lab, transaction = begun(2)
    lab.send()
    lab.give()
    lab.refusals[EndTxnRequest] = [code, code]
    operation = end(lab, transaction, is_commit=True)
    for _ in range(5):
        lab.wait(1_000)
    assert operation.done
    assert operation.error is None
    assert named(lab).count("EndTxnRequest") == 3
    assert named(lab).count("FindCoordinatorRequest") == (3 if code == E.NOT_COORDINATOR else 1)


def test_an_abort_drops_what_was_not_sent():
    lab, transaction = begun(2)
    in_flight, dropped = lab.send(), lab.send()
    operation = end(lab, transaction, is_commit=False)
    assert dropped.done
    assert "aborted" in str(dropped.error)
    assert not operation.done, "the one in flight may be written after the marker"
    lab.give()
    assert in_flight.error is None
    assert operation.done


def test_a_missing_right_to_the_id_can_be_mended():
    lab = Lab(version=2, transactional_id="x")
    lab.refusals[InitProducerIdRequest] = [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    operation = lab.machine.transaction.init()
    lab.poll()
    assert isinstance(operation.error, BrokerError)
    again = lab.machine.transaction.init()
    lab.poll()
    assert again.done
    assert again.error is None
