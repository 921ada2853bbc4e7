"""Consumers read from followers (KIP-392), and errors name the leader (KIP-951)."""

from __future__ import annotations

import asyncio

import pytest
from tests.broker.replicating import LISTENER, TOPIC, Cluster, Node
from tests.broker.test_replication import committed, contents, equal, run
from tests.log.support import TOPIC_ID, batch

from odradek.broker.clients.request_context import RequestContext
from odradek.config.broker_config import RACK_AWARE_SELECTOR
from odradek.handlers import k00_produce, k01_fetch
from odradek.model.errors import ErrorCode
from odradek.network.peer import Peer
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

RACK_AWARE = {"replica.selector.class": RACK_AWARE_SELECTOR}


def context(version: int) -> RequestContext:
    peer = Peer("127.0.0.1", 50_000, LISTENER, "127.0.0.1", 9092)
    return RequestContext(peer, 0, version, 1, "client", 0)


def fetch(node: Node, offset: int, *, version: int = 17, wait_ms: int = 0, epoch=-1, rack=""):
    part = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=10_000, current_leader_epoch=epoch
    )
    topic = FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[part])
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=10_000, topics=[topic], rack_id=rack
    )
    return k01_fetch.handle(node.broker, context(version), request)


def data_of(answer):
    return answer.responses[0].partitions[0]


def test_a_follower_serves_what_it_knows_to_be_committed(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader, follower = cluster.nodes[1], cluster.nodes[2]
        await committed(leader, b"1", b"2")
        await equal(cluster)
        cluster.nodes[3].replication.close()
        leader.partition().append(batch(b"3"), 1)
        log = follower.partition().log
        await cluster.until(lambda: log.log_end_offset == 3, "broker 2 has the record")
        data = data_of(fetch(follower, 0))
        assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 2, 2)
        assert len(data.records) == len(contents(follower)[0])
        assert data.preferred_read_replica == -1
        assert not data_of(fetch(follower, 2)).records  # it is not known to be committed
        assert data_of(fetch(follower, 2)).error_code == ErrorCode.NONE
        assert data_of(fetch(follower, 4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert data_of(fetch(follower, 0, epoch=1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        old = data_of(fetch(follower, 0, version=10))
        assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(tmp_path, scenario)


@pytest.mark.parametrize("settings", [{}, RACK_AWARE], ids=["selected by hand", "rack-aware"])
def test_a_consumer_that_waits_at_a_follower_gets_what_becomes_committed(
    tmp_path, settings
) -> None:
    async def scenario(cluster: Cluster) -> None:
        follower = cluster.nodes[2]
        await committed(cluster.nodes[1], b"1")
        await equal(cluster)
        waiting = fetch(follower, 1, wait_ms=30_000)
        assert asyncio.isfuture(waiting)
        await committed(cluster.nodes[1], b"2")
        data = data_of(await waiting)
        assert data.high_watermark == 2
        assert bytes(contents(follower)[1]) == contents(cluster.nodes[1])[1]

    run(tmp_path, scenario, node_settings=settings)


def test_the_leader_names_the_replica_in_the_rack_of_the_consumer(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = cluster.nodes[1]
        await committed(leader, b"1")
        await equal(cluster)
        named = fetch(leader, 0, rack="rack2", wait_ms=30_000)  # it does not wait
        data = data_of(named)
        assert (data.error_code, data.preferred_read_replica, data.high_watermark) == (0, 2, 1)
        assert not data.records
        for rack in ("rack1", "elsewhere", ""):
            data = data_of(fetch(leader, 0, rack=rack))
            assert data.preferred_read_replica == -1
            assert data.records
        assert data_of(fetch(cluster.nodes[2], 0, rack="rack3")).records  # only leaders choose
        fenced = data_of(fetch(leader, 0, rack="rack2", epoch=7))
        assert fenced.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    run(tmp_path, scenario, node_settings=RACK_AWARE)


def test_without_a_selector_a_rack_changes_nothing(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await committed(cluster.nodes[1], b"1")
        await equal(cluster)
        data = data_of(fetch(cluster.nodes[1], 0, rack="rack2"))
        assert data.preferred_read_replica == -1
        assert data.records

    run(tmp_path, scenario)


def test_errors_name_the_leader(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await committed(cluster.nodes[1], b"1")
        await equal(cluster)
        cluster.controller.move_leader(0, 2)
        port = cluster.nodes[2].endpoint.port
        answer = fetch(cluster.nodes[2], 0, epoch=0)
        data = data_of(answer)
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
        assert [(e.node_id, e.port, e.rack) for e in answer.node_endpoints] == [(2, port, "rack2")]
        before_hints = fetch(cluster.nodes[2], 0, epoch=0, version=15)
        assert data_of(before_hints).current_leader.leader_id == -1
        assert not before_hints.node_endpoints

        part = PartitionProduceData(index=0, records=batch(b"2"))
        topic = TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=[part])
        request = ProduceRequest(acks=-1, timeout_ms=50, topic_data=[topic])
        produced = k00_produce.handle(cluster.nodes[1].broker, context(12), request)
        result = produced.responses[0].partition_responses[0]
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (2, 1)
        assert [(e.node_id, e.port) for e in produced.node_endpoints] == [(2, port)]

    run(tmp_path, scenario)


def test_a_broker_without_a_replica_names_the_leader_too(tmp_path) -> None:
    async def scenario(cluster: Cluster) -> None:
        await committed(cluster.nodes[1], b"1")
        await equal(cluster)
        node = cluster.nodes[3]
        node.replicas._drop(node.partition(), delete=True)
        answer = fetch(node, 0)
        data = data_of(answer)
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert data.current_leader.leader_id == 1
        assert [each.node_id for each in answer.node_endpoints] == [1]

    run(tmp_path, scenario)
