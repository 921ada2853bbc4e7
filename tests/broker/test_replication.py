"""Three brokers replicate partitions over real connections."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace

import pytest
from tests.broker.replicating import TOPIC, Cluster, Node
from tests.log.support import TOPIC_ID, batch
from tests.log.test_power_loss import stored_batches

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.partitions import leading
from odradek.broker.partitions.partition import ACKS_ALL
from odradek.broker.replication import fetchers
from odradek.broker.replication.replication import PartitionReplication
from odradek.handlers import k00_produce, k01_fetch, k02_list_offsets, k21_delete_records
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.wire.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.fetch_request import ReplicaState as FetchingReplica
from odradek.wire.generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)


def run(path, scenario, **arguments) -> None:
    async def main() -> None:
        async with Cluster(path, **arguments) as cluster:
            await scenario(cluster)

    asyncio.run(main())


def context(version: int) -> RequestContext:
    peer = Peer("127.0.0.1", 50_000, "PLAINTEXT", "127.0.0.1", 9092)
    return RequestContext(peer, 0, version, 1, "client", 0)


async def committed(node: Node, *values: bytes, index: int = 0) -> None:
    """Append with acks=all, and wait. On a machine that stood still, followers seem to lag."""
    partition = node.partition(index)
    await node.cluster.until(lambda: not partition.leading.is_under_min_isr, "enough replicas")
    end = partition.append(batch(*values), ACKS_ALL).last_offset + 1
    future = asyncio.get_running_loop().create_future()
    partition.when_committed(end, future.set_result)
    assert await future is None


def contents(node: Node, index: int = 0) -> list[bytes]:
    return [bytes(each.data) for each in stored_batches(node.partition(index).log)]


async def equal(cluster: Cluster, *node_ids: int, index: int = 0) -> None:
    """All replicas have the same batches, and all are committed."""
    logs = [cluster.nodes[each].partition(index).log for each in node_ids or (1, 2, 3)]

    def are_equal() -> bool:
        ends = {log.log_end_offset for log in logs} | {log.high_watermark for log in logs}
        return len(ends) == 1

    await cluster.until(are_equal, "the replicas have the same end and high watermark")
    first, *others = (contents(cluster.nodes[each], index) for each in node_ids or (1, 2, 3))
    assert first
    assert all(other == first for other in others)


@pytest.mark.parametrize("settings", [{}, {"flush.messages": "1"}], ids=str)
def test_records_are_committed_when_the_followers_have_them(tmp_path, settings) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        assert not leader.partition().commits_at_once
        for number in range(20):
            await committed(leader, b"%d" % number, os.urandom(1000))
        partition = leader.partition()
        for number in range(50):
            partition.append(batch(b"%d" % number), 1)
        await equal(cluster)
        log = cluster.nodes[2].partition().log
        assert log.leader_epochs.entries == partition.log.leader_epochs.entries

    run(tmp_path, scenario, **settings)


def test_no_fetch_waits_at_the_leader_while_a_flush_runs(tmp_path) -> None:
    """Else the leader learns of the flush when the fetch without the partition has ended."""

    async def scenario(cluster: Cluster) -> None:
        def epoch(node_id: int) -> int:
            fetcher = cluster.nodes[node_id].fetchers._by_leader[1]
            return fetcher.machine._session.epoch

        leader, slow = cluster.nodes[1], cluster.nodes[2].fetchers
        await committed(leader, b"1")
        await committed(leader, b"2", index=3)
        held = []
        when_flushed = slow.when_flushed
        slow.when_flushed = lambda *arguments: held.append(arguments)
        leader.partition().append(batch(b"3"), 1)
        await cluster.until(lambda: held, "broker 2 flushes")
        before, others = epoch(2), epoch(3)
        await cluster.until(lambda: epoch(3) > others + 2, "broker 3 has fetched again")
        assert epoch(2) == before
        slow.when_flushed = when_flushed
        for arguments in held:
            when_flushed(*arguments)
        await equal(cluster)

    run(tmp_path, scenario, partitions=4, **{"flush.messages": "1"})


def test_consumers_read_only_what_is_committed(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        await committed(leader, b"1", b"2")
        for each in (2, 3):
            cluster.nodes[each].replication.close()
        leader.partition().append(batch(b"3"), 1)
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)
        topic = FetchTopic(topic=TOPIC, partitions=[part])
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=10_000, topics=[topic])
        answer = k01_fetch.handle(leader.broker, context(12), request)
        data = answer.responses[0].partitions[0]
        assert data.high_watermark == 2
        assert len(data.records) == len(contents(leader)[0])
        assert latest(leader, 9) == (0, 2)
        assert latest(leader, 9, replica_id=2) == (0, 3)

    run(tmp_path, scenario)


def test_a_follower_that_stops_leaves_the_isr_and_comes_back(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        await committed(leader, b"1")
        cluster.nodes[3].replication.close()  # it hangs: its registration stays
        await committed(leader, b"2")
        assert (1, 2) in cluster.altered
        assert 3 not in cluster.controller.partitions[0].isr
        await cluster.stop(3)
        await committed(leader, b"3", b"4")
        cluster.restart(3)
        await cluster.until(
            lambda: len(cluster.controller.partitions[0].isr) == 3, "broker 3 is back in the ISR"
        )
        await committed(leader, b"5")
        await equal(cluster)

    run(tmp_path, scenario)


def test_below_min_insync_replicas_nothing_is_acknowledged(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        await committed(leader, b"1")
        for each in (2, 3):
            await cluster.stop(each)
        partition = leader.partition()
        with pytest.raises(ApiError) as refused:
            partition.append(batch(b"2"), ACKS_ALL)
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        partition.append(batch(b"3"), 1)
        assert partition.log.high_watermark == 1
        cluster.restart(2)
        await cluster.until(lambda: partition.log.high_watermark == 2, "the record is committed")

    run(tmp_path, scenario)


def test_a_produce_request_times_out(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        for each in (2, 3):
            cluster.nodes[each].replication.close()
        data = PartitionProduceData(index=0, records=batch(b"1"))
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=50, topic_data=[topic])
        answer = await k00_produce.handle(leader.broker, context(12), request)
        result = answer.responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert leader.partition().log.log_end_offset == 1

    run(tmp_path, scenario)


def latest(node: Node, version: int, replica_id: int = -1) -> tuple[int, int]:
    """The error and the offset of a request for the latest offset."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name=TOPIC, partitions=[wanted])]
    request = ListOffsetsRequest(replica_id=replica_id, topics=topics)
    answer = k02_list_offsets.handle(node.broker, context(version), request)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset


def test_a_new_leader_does_not_tell_an_offset_that_may_go_back(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await committed(cluster.nodes[1], b"1")
        partition = cluster.nodes[1].partition()
        for _ in range(100):
            partition.append(batch(b"2"), 1)
        log = cluster.nodes[2].partition().log
        await cluster.until(lambda: log.log_end_offset == 101, "broker 2 has the records")
        for each in (1, 3):
            await cluster.nodes[each].stop()
        log.high_watermark = 1  # it may not know better
        cluster.controller.move_leader(0, 2)
        assert latest(cluster.nodes[2], 5) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert latest(cluster.nodes[2], 4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert latest(cluster.nodes[2], 5, replica_id=3) == (0, 101)
        for each in (1, 3):
            cluster.nodes[each].start()
        await equal(cluster)
        assert latest(cluster.nodes[2], 5) == (0, 101)

    run(tmp_path, scenario)


def test_a_deposed_leader_drops_what_was_not_committed(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        old, new = cluster.nodes[1], cluster.nodes[2]
        await committed(old, b"1", b"2")
        await equal(cluster)
        for each in (2, 3):
            await cluster.nodes[each].stop()
        partition = old.partition()
        partition.append(batch(b"lost"), 1)
        failed = asyncio.get_running_loop().create_future()
        partition.when_committed(3, failed.set_result)
        cluster.controller.move_leader(0, 2)
        for each in (2, 3):
            cluster.nodes[each].start()
        assert (await failed).code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(ApiError):
            partition.append(batch(b"late"), 1)
        await committed(new, b"3", b"4", b"5")
        assert latest(new, 9) == (0, 5)
        await equal(cluster)
        assert partition.log.leader_epochs.entries == [(0, 0), (1, 2)]
        assert partition.log.log_end_offset == 5

    run(tmp_path, scenario)


def test_a_follower_behind_the_start_of_the_leaders_log_starts_there(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        await committed(leader, b"1")
        await cluster.stop(3)
        for number in range(5):
            await committed(leader, b"%d" % number)
        leader.partition().log.delete_records_before(4)
        await cluster.until(
            lambda: cluster.nodes[2].partition().log.log_start_offset == 4, "the start follows"
        )
        cluster.restart(3)
        await cluster.until(
            lambda: len(cluster.controller.partitions[0].isr) == 3, "broker 3 is back in the ISR"
        )
        log = cluster.nodes[3].partition().log
        assert (log.log_start_offset, log.log_end_offset) == (4, 6)

    run(tmp_path, scenario)


def test_the_leaders_log_may_start_inside_of_a_batch(tmp_path) -> None:
    """Whole batches are sent: the first one begins before the offset that was asked for."""

    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        await committed(leader, b"1")
        await cluster.stop(3)
        await committed(leader, b"2", b"3", b"4", b"5")
        await committed(leader, b"6")
        leader.partition().log.delete_records_before(3)
        cluster.restart(3)
        await cluster.until(
            lambda: len(cluster.controller.partitions[0].isr) == 3, "broker 3 is back in the ISR"
        )
        log = cluster.nodes[3].partition().log
        assert (log.log_start_offset, log.log_end_offset) == (3, 6)

    run(tmp_path, scenario)


def test_records_are_deleted_when_all_live_replicas_have_deleted_them(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        await committed(leader, b"1")
        await committed(leader, b"2")
        await equal(cluster)

        async def delete(offset: int, timeout_ms: int):
            part = DeleteRecordsPartition(partition_index=0, offset=offset)
            topic = DeleteRecordsTopic(name=TOPIC, partitions=[part])
            request = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
            answer = k21_delete_records.handle(leader.broker, context(2), request)
            if asyncio.isfuture(answer):
                answer = await answer
            result = answer.topics[0].partitions[0]
            return result.error_code, result.low_watermark

        assert await delete(1, 10_000) == (0, 1)
        assert cluster.nodes[3].partition().log.log_start_offset == 1
        cluster.nodes[3].replication.close()
        assert await delete(2, 100) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        await cluster.stop(3)
        assert await delete(2, 10_000) == (0, 2)

    run(tmp_path, scenario)


@pytest.mark.parametrize("turn_seconds", [fetchers.TURN_SECONDS, 0])
def test_many_partitions_change_their_leaders(tmp_path, monkeypatch, turn_seconds) -> None:
    monkeypatch.setattr(fetchers, "TURN_SECONDS", turn_seconds)
    count = 10

    async def scenario(cluster: Cluster) -> None:
        for round_number in range(2):
            for index in range(count):
                leader = cluster.nodes[cluster.controller.partitions[index].leader]
                await committed(leader, b"%d" % round_number, index=index)
            for index in range(count):
                leader = cluster.controller.partitions[index].leader
                cluster.controller.move_leader(index, leader % 3 + 1)
        for index in range(count):
            leader = cluster.nodes[cluster.controller.partitions[index].leader]
            await committed(leader, b"end", index=index)
            await equal(cluster, index=index)

    run(tmp_path, scenario, partitions=count)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"broker_epoch": 1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"topic_id": bytes(16)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"offset": 5}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"node": 2}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({}, ErrorCode.NONE),
    ],
    ids=str,
)
def test_which_fetches_of_followers_are_refused(tmp_path, fields, error) -> None:
    async def scenario(cluster: Cluster) -> None:
        part = FetchPartition(
            partition=0,
            current_leader_epoch=fields.get("epoch", 0),
            fetch_offset=fields.get("offset", 0),
            partition_max_bytes=1000,
        )
        topic = FetchTopic(topic_id=fields.get("topic_id", TOPIC_ID), partitions=[part])
        who = FetchingReplica(
            replica_id=fields.get("replica", 3), replica_epoch=fields.get("broker_epoch", 3)
        )
        request = FetchRequest(replica_state=who, min_bytes=1, max_bytes=1000, topics=[topic])
        node = cluster.nodes[fields.get("node", 1)]
        answer = k01_fetch.handle(node.broker, context(17), request)
        assert answer.responses[0].partitions[0].error_code == error

    run(tmp_path, scenario)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_throttled_follower_outside_the_isr_gets_no_records(tmp_path, role) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        await committed(leader, b"1")
        await equal(cluster)
        await cluster.stop(3)
        end = leader.partition().append(batch(b"2", b"3"), 1).last_offset + 1
        await cluster.until(lambda: leader.partition().log.high_watermark == end, "2 has them")
        cluster.restart(3)
        throttled = cluster.nodes[1 if role == "leader" else 3]
        throttle = getattr(throttled.throttles, role)
        throttle.set_replicas(TOPIC, ["*"])
        throttle.set_limit(1)
        throttle.record(int(asyncio.get_running_loop().time() * 1000), 1 << 40)
        machine = leader.partition().leading.machine
        log = cluster.nodes[3].partition().log
        behind = log.log_end_offset
        if role == "leader":
            await cluster.until(lambda: machine.followers[3].broker_epoch >= 0, "3 fetches")
        for number in range(5):  # a follower in the ISR is not throttled
            await committed(leader, b"%d" % number)
        assert log.log_end_offset == behind < end
        assert 3 not in machine.isr
        throttle.set_limit(1 << 60)
        await cluster.until(lambda: 3 in machine.isr, "broker 3 has caught up")
        await equal(cluster)

    run(tmp_path, scenario)


def test_a_partition_that_cannot_be_checked_does_not_end_the_checks_of_the_others(caplog) -> None:
    class Broken:
        def tick(self) -> None:
            raise RuntimeError("broken")

    class Sound:
        def __init__(self) -> None:
            self.checks: asyncio.Queue[None] = asyncio.Queue()

        def tick(self) -> None:
            self.checks.put_nowait(None)

    async def scenario() -> None:
        sound = Sound()
        context = SimpleNamespace(lag_time_max_ms=2, led={Broken(): None, sound: None})
        fetchers = SimpleNamespace(close=lambda: None)
        replication = PartitionReplication(context, fetchers, asyncio.get_running_loop())
        for _ in range(2):
            await sound.checks.get()
        replication.close()

    asyncio.run(scenario())
    assert "a partition was not checked" in caplog.text


def test_appends_that_are_not_committed_need_little_memory(tmp_path, monkeypatch) -> None:
    """With acks=1 a producer may append for hours while the ISR is too small."""
    monkeypatch.setattr(leading, "SIZES_MAX", 3)

    class Waiter:
        def __init__(self) -> None:
            self.appended_bytes = 0

        def on_committed(self, appended_bytes: int) -> None:
            self.appended_bytes += appended_bytes

        def expire(self) -> None:
            raise AssertionError("nothing ends the wait")

    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        await committed(leader, b"1")
        for each in (2, 3):
            await cluster.stop(each)
        partition = leader.partition()
        for _ in range(10):
            partition.append(batch(b"2"), 1)
            assert len(partition.leading._sizes) <= 3
        waiter = Waiter()
        partition.add_waiter(waiter)
        cluster.restart(2)
        await cluster.until(lambda: partition.log.high_watermark == 11, "all are committed")
        assert waiter.appended_bytes > 1 << 40
        before, size = waiter.appended_bytes, len(batch(b"3"))
        await committed(leader, b"3")
        assert waiter.appended_bytes == before + size
        partition.remove_waiter(waiter)

    run(tmp_path, scenario)
