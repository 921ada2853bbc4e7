"""Clusters of nodes that are brokers, controllers, or both."""

import asyncio
import re

import pytest
from tests.raft.requests import ask

from odradek.broker.controller.lifecycle import JoinError
from odradek.node.format import FormatError
from odradek.node.node import Node
from odradek.wire.generated.describe_cluster_request import DescribeClusterRequest

from .cluster import CLUSTER_ID, Cluster, cluster, free_ports

pytestmark = pytest.mark.cluster

CONTROLLERS = dict.fromkeys((1, 2, 3), "controller")
BROKERS = dict.fromkeys((11, 12), "broker")


def run(test):
    def runner(tmp_path):
        asyncio.run(test(tmp_path))

    runner.__name__ = test.__name__
    return runner


async def brokers_of(nodes, via):
    answer = await ask(nodes.ports[via], DescribeClusterRequest(), 2)
    assert answer.error_code == 0
    return sorted(each.broker_id for each in answer.brokers)


@run
@pytest.mark.slow("five processes, of which two are killed and return")
async def test_three_controllers_and_two_brokers(tmp_path):
    async with cluster(tmp_path, CONTROLLERS | BROKERS) as nodes:
        assert await brokers_of(nodes, 11) == await brokers_of(nodes, 12) == [11, 12]
        await nodes.create(11, "a", partitions=4, factor=2)
        await nodes.produce("a", [b"%d" % each for each in range(100)])
        for index in range(4):
            await nodes.until(lambda index=index: len(_high_watermarks(nodes, "a", index)) == 1)
            await nodes.until(lambda index=index: _isr(nodes, 12, "a", index) == [11, 12])

        first = await nodes.active()
        await nodes.stop(first)
        second = await nodes.active()
        assert second != first
        await nodes.create(12, "b", factor=2)
        await nodes.produce("b", [b"x"])
        await nodes.start(first)

        await nodes.kill_controller(second)
        third = await nodes.active()
        assert third != second
        await nodes.create(11, "c", factor=2)
        await nodes.produce("c", [b"y"])
        await asyncio.sleep(3.5)  # more than a session
        while await brokers_of(nodes, 11) != [11, 12]:  # if the machine has paused for a session
            await asyncio.sleep(0.1)
        values = await nodes.consume("a", 100, "readers")
        assert sorted(map(int, values)) == list(range(100))


def _isr(nodes, via, topic, index):
    return sorted(nodes.partition(via, topic, index).isr)


def _high_watermarks(nodes, topic, index):
    return {each.broker.replicas.find(topic, index).log.high_watermark for each in nodes.brokers()}


@run
async def test_a_broker_that_sends_no_heartbeats_is_fenced(tmp_path):
    async with cluster(tmp_path, CONTROLLERS | BROKERS) as nodes:
        await nodes.create(11, "a", factor=2)
        await nodes.produce("a", [b"1"])
        leader = nodes.partition(11, "a").leader
        (other,) = {11, 12} - {leader}
        nodes.nodes[leader]._broker.stop_heartbeats()
        await nodes.until(lambda: nodes.partition(other, "a").leader == other)
        assert nodes.partition(other, "a").isr == (other,)
        assert await brokers_of(nodes, other) == [other]
        await nodes.produce("a", [b"2"])
        assert await nodes.consume("a", 2, "readers") == [b"1", b"2"]


@run
async def test_a_broker_that_stops_hands_its_leaders_over_and_comes_back(tmp_path):
    # If the machine pauses, no broker may leave the ISR: it could not become the leader then.
    patient = {"replica_lag_time_max_ms": "60000", "broker_session_timeout_ms": "30000"}
    async with cluster(tmp_path, CONTROLLERS | BROKERS, **patient) as nodes:
        await nodes.create(11, "a", partitions=4, factor=2)
        await nodes.produce("a", [b"%d" % each for each in range(20)])
        await nodes.stop(11)
        for index in range(4):
            await nodes.until(lambda index=index: nodes.partition(12, "a", index).leader == 12)
        await nodes.produce("a", [b"%d" % each for each in range(20, 40)])
        await nodes.start(11)
        await nodes.until(
            lambda: all(set(nodes.partition(12, "a", each).isr) == {11, 12} for each in range(4))
        )
        await nodes.until(
            lambda: all(len(_high_watermarks(nodes, "a", each)) == 1 for each in range(4))
        )
        assert (
            sum(
                nodes.nodes[11].broker.replicas.find("a", each).log.log_end_offset
                for each in range(4)
            )
            == 40
        )


@run
@pytest.mark.slow("a cluster of processes whose leaders are killed")
async def test_three_nodes_with_both_roles(tmp_path):
    roles = dict.fromkeys((1, 2, 3), "broker,controller")
    async with cluster(tmp_path, roles) as nodes:
        assert await brokers_of(nodes, 2) == [1, 2, 3]
        await nodes.create(3, "a", partitions=3, factor=3)
        await nodes.produce("a", [b"%d" % each for each in range(30)])
        assert len(await nodes.consume("a", 30, "readers")) == 30
        active = await nodes.active()
        await nodes.stop(active)
        await nodes.produce("a", [b"%d" % each for each in range(30, 60)])
        assert len(await nodes.consume("a", 60, "others")) == 60


@run
async def test_one_controller_and_one_broker(tmp_path):
    async with cluster(tmp_path, {1: "controller", 2: "broker"}) as nodes:
        await nodes.create(2, "a")
        await nodes.produce("a", [b"x"])
        assert await nodes.consume("a", 1, "readers") == [b"x"]
        await nodes.nodes[2].broker.topic_creation.create("wanted", 20_000)
        assert "wanted" in nodes.nodes[1].controller.image.topics.by_name


@run
async def test_a_second_node_beside_one_with_both_roles(tmp_path):
    async with cluster(tmp_path, {1: "broker,controller", 2: "broker"}) as nodes:
        await nodes.create(1, "a", partitions=2, factor=2)
        await nodes.produce("a", [b"%d" % each for each in range(10)])
        # The producer may send all records to one partition.
        await nodes.until(
            lambda: sum(max(_high_watermarks(nodes, "a", each)) for each in (0, 1)) == 10
        )
        for index in range(2):
            await nodes.until(lambda index=index: _isr(nodes, 1, "a", index) == [1, 2])


@run
async def test_the_only_voter_hands_its_leaders_over_before_it_stops(tmp_path):
    async with cluster(tmp_path, {1: "broker,controller", 2: "broker"}) as nodes:
        await nodes.create(1, "a", partitions=4, factor=2)
        await nodes.produce("a", [b"%d" % each for each in range(20)])
        await nodes.stop(1)
        assert [nodes.partition(2, "a", index).leader for index in range(4)] == [2] * 4
        await nodes.start(1)


@run
async def test_a_node_that_joins_a_cluster_must_be_formatted(tmp_path):
    nodes = Cluster(tmp_path, CONTROLLERS | BROKERS)
    for each in (1, 11):
        node = Node(nodes.config(each))
        with pytest.raises(FormatError, match=re.escape("run `odradek format`")):
            await node.start()


@run
async def test_a_second_broker_with_the_same_id_is_refused(tmp_path):
    async with cluster(tmp_path, {1: "controller", 2: "broker"}) as nodes:
        settings = {"initial.broker.registration.timeout.ms": "100"}
        nodes.settings = {**settings, "log.dirs": str(tmp_path / "copy")}
        nodes.ports[2] = free_ports(1)[0]
        second = Node(nodes.config(2), cluster_id=CLUSTER_ID)
        with pytest.raises(JoinError, match="A live broker uses this broker id"):
            await second.start()
