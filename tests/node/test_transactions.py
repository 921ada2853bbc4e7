"""Transactions whose coordinator, partitions and group are on different brokers."""

import asyncio
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from tests.raft.requests import ask
from tests.transaction.test_produce import batch

from odradek.model.errors import ErrorCode
from odradek.wire.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.wire.generated.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .cluster import cluster
from .test_roles import run

pytestmark = pytest.mark.cluster

ROLES = dict.fromkeys((1, 2, 3), "broker,controller")
SETTINGS = {
    "transaction_state_log_num_partitions": "3",
    "transaction_state_log_replication_factor": "3",
    "transaction_state_log_min_isr": "2",
    "offsets_topic_num_partitions": "3",
}
PARTITIONS = range(3)
OK = ErrorCode.NONE
GROUP, TRANSACTION = 0, 1
AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


async def coordinator_of(nodes, key, kind):
    """The broker that coordinates a group or a transactional id."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    while True:
        port = nodes.ports[next(iter(nodes.nodes))]
        (found,) = (await ask(port, request, 4)).coordinators
        if not found.error_code:
            return found.node_id
        await asyncio.sleep(0.02)


async def prepared(nodes):
    """Create the topic; return a transactional id and a group with different coordinators."""
    await nodes.create(1, "target", partitions=len(PARTITIONS), factor=3)
    assert {nodes.partition(1, "target", each).leader for each in PARTITIONS} == {1, 2, 3}
    coordinator = await coordinator_of(nodes, "shop", TRANSACTION)
    for number in range(100):
        group = f"group-{number}"
        if await coordinator_of(nodes, group, GROUP) != coordinator:
            return "shop", group
    raise AssertionError("one broker leads all partitions of __consumer_offsets")


class Transactions:
    """A producer that sends one request at a time, in the versions that the test wants."""

    def __init__(self, nodes, name):
        self.nodes = nodes
        self.name = name
        self.producer = -1, -1

    async def until_answered(self, kind, key, request, version):
        """Ask the coordinator until the error of its response is not a transient one."""
        while True:
            port = self.nodes.ports[await coordinator_of(self.nodes, key, kind)]
            answer = await ask(port, request, version)
            if answer.error_code not in AGAIN:
                return answer
            await asyncio.sleep(0.02)

    async def initialize(self):
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        answer = await self.until_answered(TRANSACTION, self.name, request, 5)
        assert not answer.error_code
        self.producer = answer.producer_id, answer.producer_epoch

    async def produce(self, index, sequence=0, version=12, producer=None):
        """Append a record to a partition; return the error code."""
        records = batch(*(producer or self.producer), sequence)
        data = [PartitionProduceData(index=index, records=records)]
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=20_000,
            topic_data=[TopicProduceData(name="target", partition_data=data)],
        )
        while True:
            leader = self.nodes.partition(next(iter(self.nodes.nodes)), "target", index).leader
            answer = await ask(self.nodes.ports[leader], request, version)
            code = answer.responses[0].partition_responses[0].error_code
            if code not in AGAIN:
                return code
            await asyncio.sleep(0.02)

    async def commit_offset(self, group, offset):
        producer_id, epoch = self.producer
        position = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name="target", partitions=[position])],
        )
        while True:
            port = self.nodes.ports[await coordinator_of(self.nodes, group, GROUP)]
            code = (await ask(port, request, 5)).topics[0].partitions[0].error_code
            if code not in AGAIN:
                return code
            await asyncio.sleep(0.02)

    async def end(self, committed, version=5):
        producer_id, epoch = self.producer
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )
        answer = await self.until_answered(TRANSACTION, self.name, request, version)
        assert not answer.error_code
        if version >= 5:
            self.producer = answer.producer_id, answer.producer_epoch

    async def completed(self):
        """Wait until all markers are written; return the phase."""
        while True:
            port = self.nodes.ports[await coordinator_of(self.nodes, self.name, TRANSACTION)]
            request = DescribeTransactionsRequest(transactional_ids=[self.name])
            phase = (await ask(port, request)).transaction_states[0].transaction_state
            if phase.startswith("Complete"):
                return phase
            await asyncio.sleep(0.02)


async def committed_offset(nodes, group):
    """The stable offset of a group; None while it cannot be told."""
    topic = OffsetFetchRequestTopics(name="target", partition_indexes=[0])
    asked = OffsetFetchRequestGroup(group_id=group, topics=[topic])
    request = OffsetFetchRequest(groups=[asked], require_stable=True)
    port = nodes.ports[await coordinator_of(nodes, group, GROUP)]
    (found,) = (await ask(port, request, 9)).groups
    if found.error_code or found.topics[0].partitions[0].error_code:
        return None
    return found.topics[0].partitions[0].committed_offset


async def offset_becomes(nodes, group, wanted):
    while await committed_offset(nodes, group) != wanted:
        await asyncio.sleep(0.02)


def open_records(nodes):
    """The number of records of open transactions in each partition; None without a leader."""
    found = []
    for index in PARTITIONS:
        leader = nodes.partition(next(iter(nodes.nodes)), "target", index).leader
        if leader not in nodes.nodes:
            return None
        log = nodes.nodes[leader].broker.replicas.find("target", index).log
        found.append(log.log_end_offset - log.last_stable_offset)
    return found


@run
async def test_version_2_over_all_brokers(tmp_path):
    async with cluster(tmp_path, ROLES, **SETTINGS) as nodes:
        name, group = await prepared(nodes)
        coordinator = await coordinator_of(nodes, name, TRANSACTION)
        producer = Transactions(nodes, name)
        await producer.initialize()
        for committed, offset, wanted in ((True, 5, 5), (False, 6, 5), (True, 7, 7)):
            for index in PARTITIONS:
                assert await producer.produce(index, 0) == OK
                assert await producer.produce(index, 1) == OK
            assert await producer.commit_offset(group, offset) == OK
            assert open_records(nodes) == [2] * len(PARTITIONS)
            assert await committed_offset(nodes, group) is None, "not stable"
            await producer.end(committed)
            phase = await producer.completed()
            assert phase == ("CompleteCommit" if committed else "CompleteAbort")
            await nodes.until(lambda: open_records(nodes) == [0] * len(PARTITIONS))
            await offset_becomes(nodes, group, wanted)

        remote = next(
            each for each in PARTITIONS if nodes.partition(1, "target", each).leader != coordinator
        )
        producer_id, epoch = producer.producer
        assert await producer.produce(remote, producer=(producer_id, epoch + 1)) == (
            ErrorCode.INVALID_PRODUCER_EPOCH
        )
        assert await producer.produce(remote, producer=(producer_id + 900, 0)) == (
            ErrorCode.INVALID_PRODUCER_ID_MAPPING
        )


@run
async def test_version_1_over_all_brokers(tmp_path):
    async with cluster(tmp_path, ROLES, **SETTINGS) as nodes:
        name, _ = await prepared(nodes)
        producer = Transactions(nodes, name)
        await producer.initialize()
        for index in PARTITIONS:
            assert await producer.produce(index, version=11) == ErrorCode.TRANSACTION_ABORTABLE
            assert await producer.produce(index, version=10) == ErrorCode.INVALID_TXN_STATE
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer[0],
            v3_and_below_producer_epoch=producer.producer[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name="target", partitions=list(PARTITIONS))
            ],
        )
        port = nodes.ports[await coordinator_of(nodes, name, TRANSACTION)]
        (added,) = (await ask(port, request, 3)).results_by_topic_v3_and_below
        codes = {each.partition_error_code for each in added.results_by_partition}
        assert codes == {OK}
        for index in PARTITIONS:
            assert await producer.produce(index, version=11) == OK
        await producer.end(True, version=4)
        assert await producer.completed() == "CompleteCommit"
        assert open_records(nodes) == [0] * len(PARTITIONS)


@run
async def test_a_coordinator_that_stops_in_the_middle(tmp_path):
    async with cluster(tmp_path, ROLES, **SETTINGS) as nodes:
        name, group = await prepared(nodes)
        coordinator = await coordinator_of(nodes, name, TRANSACTION)
        servers = {"bootstrap.servers": nodes.bootstrap, "log_level": 0}
        producer = Producer({**servers, "transactional.id": name})
        member = Consumer({**servers, "group.id": group}).consumer_group_metadata()

        def transact(value, offset, is_commit=True):
            producer.begin_transaction()
            for index in PARTITIONS:
                producer.produce("target", value, partition=index)
            assert producer.flush(30) == 0
            position = Position("target", 0, offset)
            producer.send_offsets_to_transaction([position], member, 30)
            (producer.commit_transaction if is_commit else producer.abort_transaction)(30)

        await asyncio.to_thread(producer.init_transactions, 30)
        await asyncio.to_thread(transact, b"a", 1)
        await asyncio.to_thread(transact, b"b", 2, is_commit=False)
        await offset_becomes(nodes, group, 1)
        await nodes.until(lambda: open_records(nodes) == [0] * len(PARTITIONS))

        nodes.nodes[coordinator].broker.coordinators.transactions._markers = SimpleNamespace(
            send=lambda leader, partition, marker: {}, drop=lambda partition: None
        )
        await asyncio.to_thread(transact, b"c", 3)  # the decision is committed
        assert open_records(nodes) == [1] * len(PARTITIONS)
        assert await committed_offset(nodes, group) is None
        await nodes.stop(coordinator)
        await nodes.until(lambda: open_records(nodes) == [0] * len(PARTITIONS))
        await offset_becomes(nodes, group, 3)
        assert await coordinator_of(nodes, name, TRANSACTION) != coordinator

        await asyncio.to_thread(transact, b"d", 4)
        await offset_becomes(nodes, group, 4)
        values = await nodes.consume("target", 9, "readers")
        assert sorted(values) == [b"a"] * 3 + [b"c"] * 3 + [b"d"] * 3
