"""Partitions of fetch sessions that rest: they are read only after a change."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from tests.broker import replicating
from tests.broker.replicating import LISTENER, Cluster, Node
from tests.broker.support import LED_HERE, partition_of
from tests.broker.test_replication import run
from tests.log.support import TOPIC_ID, batch
from tests.replica.controller import broker_registration

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.partitions import reading
from odradek.broker.partitions.leading import LeaderContext
from odradek.broker.partitions.resting import RestingPartition
from odradek.core.session import fetch as sessions
from odradek.core.session.fetch import FetchedPartition, FetchSession
from odradek.handlers import k01_fetch
from odradek.model.errors import ErrorCode
from odradek.network.peer import Peer
from odradek.wire.generated.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)

PARTITIONS = 12
LED = range(0, PARTITIONS, 3)
"""The partitions that node 1 leads."""


@pytest.fixture(autouse=True)
def _no_refresh(monkeypatch) -> None:
    monkeypatch.setattr(sessions, "REFRESH_MS", 1 << 40)


def count_reads(monkeypatch, name: str) -> list[int]:
    """Return a list to which each read adds the partition."""
    read, original = [], getattr(reading, name)

    def counted(partition, *arguments, **options):
        read.append(partition.index)
        return original(partition, *arguments, **options)

    monkeypatch.setattr(reading, name, counted)
    return read


def fetch(
    node: Node,
    session: tuple[int, int],
    offsets: dict[int, int],
    wait_ms: int = 0,
    follower: ReplicaState | None = None,
):
    parts = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=10_000,
            current_leader_epoch=0,
        )
        for index, offset in offsets.items()
    ]
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=100_000,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=parts)] if parts else [],
        session_id=session[0],
        session_epoch=session[1],
        replica_state=follower or ReplicaState(),
    )
    peer = Peer("127.0.0.1", 50_000, LISTENER, "127.0.0.1", 9092)
    context = RequestContext(peer, 1, 17, 1, "client", session[1])
    return k01_fetch.handle(node.broker, context, request)


def indexes(answer) -> list[int]:
    return [part.partition_index for topic in answer.responses for part in topic.partitions]


def test_a_follower_reads_only_what_has_changed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(replicating, "LAG_MS", 1 << 40)  # broker 3 stays in the ISRs
    follower = ReplicaState(replica_id=2, replica_epoch=2)

    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        for each in (2, 3):
            cluster.nodes[each].replication.close()
        first = fetch(leader, (0, 0), dict.fromkeys(LED, 0), follower=follower)
        session = leader.broker.fetch_sessions._sessions[first.session_id]
        assert not session.active
        before = {key: each.watch for key, each in session.partitions.items()}
        leader.partition(6).append(batch(b"x"), 1)
        assert [index for _, index in session.active] == [6]
        answer = fetch(leader, (first.session_id, 1), {}, follower=follower)
        assert indexes(answer) == [6]
        answer = fetch(leader, (first.session_id, 2), {6: 1}, follower=follower)
        assert indexes(answer) == []
        assert not session.active
        # A partition that was read has another watch.
        read = [key for key, each in session.partitions.items() if each.watch is not before[key]]
        assert [index for _, index in read] == [6]

    run(tmp_path, scenario, partitions=PARTITIONS)


def test_a_consumer_that_waits_gets_the_records_of_a_resting_partition(
    tmp_path, monkeypatch
) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        first = fetch(leader, (0, 0), dict.fromkeys(LED, 0))
        assert indexes(first) == [*LED]
        read = count_reads(monkeypatch, "read")
        waiting = fetch(leader, (first.session_id, 1), {}, wait_ms=60_000)
        assert isinstance(waiting, asyncio.Future)
        leader.partition(3).append(batch(b"x"), -1)
        answer = await waiting
        assert indexes(answer) == [3]
        # Not fetched yet: the records come again. The new offset ends that.
        assert indexes(fetch(leader, (first.session_id, 2), {})) == [3]
        assert indexes(fetch(leader, (first.session_id, 3), {3: 1})) == []
        assert indexes(fetch(leader, (first.session_id, 4), {})) == []
        assert set(read) == {3}
        # Another partition has rested since the first request.
        waiting = fetch(leader, (first.session_id, 5), {}, wait_ms=60_000)
        leader.partition(6).append(batch(b"x"), -1)
        assert indexes(await waiting) == [6]

    run(tmp_path, scenario, partitions=PARTITIONS)


def test_an_error_ends_the_rest(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        first = fetch(leader, (0, 0), {0: 0, 3: 0})
        assert indexes(fetch(leader, (first.session_id, 1), {})) == []
        waiting = fetch(leader, (first.session_id, 2), {}, wait_ms=60_000)
        cluster.controller.move_leader(0, 2)
        answer = await waiting
        part = answer.responses[0].partitions[0]
        assert (part.partition_index, part.error_code) == (0, ErrorCode.FENCED_LEADER_EPOCH)
        assert indexes(fetch(leader, (first.session_id, 3), {})) == [0]

    run(tmp_path, scenario, partitions=4)


def test_a_closed_session_watches_nothing(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        first = fetch(leader, (0, 0), {0: 0, 3: 0})
        assert all(leader.partition(each)._watches for each in (0, 3))
        fetch(leader, (first.session_id, -1), {})
        assert not any(leader.partition(each)._watches for each in (0, 3))

    run(tmp_path, scenario, partitions=4)


def test_a_resting_follower_stays_in_the_isr(tmp_path) -> None:
    """The leader knows that a follower has fetched all the time, without reading for it."""
    registration = LED_HERE._replace(
        replicas=(1, 2), directories=(bytes(16),) * 2, isr=(1, 2), leader_epoch=1
    )
    partition = partition_of(tmp_path, registration=registration)
    now = SimpleNamespace(ms=1000)
    altered: list[object] = []
    broker = broker_registration(2, 1, fenced=False)
    partition.lead_followers(
        LeaderContext(
            node_id=1,
            now_ms=lambda: now.ms,
            broker_of=lambda _: broker,
            lag_time_max_ms=600,
            alter=lambda *change: altered.append(change),
        )
    )
    leading = partition.leading
    assert leading is not None
    leading.fetched(2, 1, 0, 0)
    key = (TOPIC_ID, 0)
    wanted = FetchedPartition(key, None, FetchPartition(partition=0))
    session = FetchSession(1, now.ms, True, {key: wanted}, True)
    RestingPartition(session, wanted, partition, 2)
    now.ms = 9000
    session.update(FetchRequest(), now.ms)
    now.ms = 9100
    partition.append(batch(b"x"), 1)
    assert session.active == {key: wanted}
    leading.tick()
    assert not altered  # it had everything 100 ms ago
    now.ms = 9601
    leading.tick()
    assert [each[2].broker_ids for each in altered] == [{1}]


def test_resting_partitions_are_read_from_time_to_time(monkeypatch) -> None:
    monkeypatch.setattr(sessions, "REFRESH_MS", 1000)
    keys = [(TOPIC_ID, index) for index in range(250)]
    partitions = {
        key: FetchedPartition(key, None, FetchPartition(partition=key[1])) for key in keys
    }
    session = FetchSession(1, 0, True, partitions, False)
    watch = SimpleNamespace(close=lambda: None)

    def activated(now_ms: int) -> int:
        for partition in list(session.active.values()):
            assert session.rest(partition, watch)
        session.update(FetchRequest(), now_ms)
        return len(session.active)

    assert [activated(ms) for ms in (999, 1000, 1001, 1002, 1003)] == [0, 100, 100, 50, 0]
    assert [activated(ms) for ms in (2001, 2002)] == [0, 100]
