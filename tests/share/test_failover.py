"""The leader of a partition dies: the next one has the acknowledgements."""

from __future__ import annotations

import time

import pytest
from compat.lab.wire_client import WireClient
from tests.share.member import Member, configure, errors, results
from tests.share.test_requests import topic_id

from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.cluster import Cluster as Connection
from odradek.client.producer import Producer
from odradek.client.share.consumer import ShareConsumer
from odradek.core.share.schedule import HEADER
from odradek.model.config_resource import ResourceType
from odradek.testing import Cluster
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse

GROUP = "workers"
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.min.isr": "1",
}


def ports(cluster: Cluster) -> dict[int, int]:
    """Return the ports of the nodes; the first node has the id 1."""
    servers = cluster.bootstrap_servers.split(",")
    return {number: int(each.rpartition(":")[2]) for number, each in enumerate(servers, 1)}


def coordinator(client: WireClient) -> int:
    """Return the port of the group's coordinator."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    while True:
        response = client.call("FindCoordinator", 4, request, FindCoordinatorResponse)
        (found,) = response.coordinators
        if not found.error_code:
            return found.port


@pytest.mark.cluster
def test_the_next_leader_has_the_acknowledgements() -> None:
    with Cluster(3, topics={"jobs": 1}, settings=SETTINGS) as cluster:
        leader = cluster.leader("jobs")
        with WireClient(ports(cluster)[leader]) as client:
            configure(client, GROUP, share_auto_offset_reset="earliest")
            key = topic_id(client, "jobs")
            with WireClient(coordinator(client)) as other:
                Member(other, GROUP, "one", key).join("jobs")
            for number in range(4):
                assert client.produce_one("jobs", b"%d" % number) == 0
            member = Member(client, GROUP, "one", key)
            while member.acquired(0, max_wait_ms=30_000)[-1][1] < 3:
                pass
            assert errors(member.acknowledge((1, 1, [1]), (3, 3, [3]))) == [0]
        cluster.wait_until_in_sync()
        cluster.kill(leader)
        while (following := cluster.leader("jobs")) == leader:
            time.sleep(0.05)
        with WireClient(ports(cluster)[following]) as client:
            member = Member(client, GROUP, "two", key)
            found: set[int] = set()
            while found != {0, 2}:
                response = member.fetch(0, epoch=0, max_wait_ms=500)
                for result in results(response):
                    for each in result.acquired_records:
                        found.update(range(each.first_offset, each.last_offset + 1))
                assert found <= {0, 2}
            member.epoch = 1
            assert errors(member.acknowledge((0, 0, [1]), (2, 2, [1]))) == [0]


@pytest.mark.cluster
def test_the_next_leader_has_the_delayed_records() -> None:
    with (
        Cluster(3, topics={"jobs": 1}, settings=SETTINGS) as cluster,
        Connection(cluster.bootstrap_servers) as connection,
    ):
        group = Resource(ResourceType.GROUP, GROUP)
        changes = [
            Change("share.auto.offset.reset", "earliest"),
            Change("odradek.share.delay.enable", "true"),
        ]
        assert alter_configs(connection, {group: changes}) == {group: None}
        due_ms = time.time_ns() // 1_000_000 + 3_000
        with Producer(connection) as producer:
            for number in range(300):
                headers = [(HEADER, b"%d" % due_ms)] if number % 3 else []
                producer.send("jobs", b"%d" % number, partition=0, headers=headers)
        at_once = {b"%d" % number for number in range(0, 300, 3)}
        delayed = {b"%d" % number for number in range(300)} - at_once
        with ShareConsumer(connection, GROUP, ["jobs"]) as consumer:
            first = taken(consumer, at_once)
            assert first >= at_once
            assert first == at_once or time.time_ns() // 1_000_000 >= due_ms
            consumer.commit()
            cluster.wait_until_in_sync()
            cluster.kill(cluster.leader("jobs"))
            assert taken(consumer, delayed - first) <= delayed
            assert time.time_ns() // 1_000_000 >= due_ms


def taken(consumer: ShareConsumer, wanted: set[bytes]) -> set[bytes | None]:
    """Accept records until all of these values have come; return the values that have come."""
    seen: set[bytes | None] = set()
    while not wanted <= seen:
        for record in consumer.poll(1_000):
            consumer.accept(record)
            seen.add(record.value)
    return seen


@pytest.mark.cluster
def test_our_consumer_goes_on_when_leaders_die() -> None:
    """Two nodes die in turn. Each of them leads a partition."""
    with (
        Cluster(3, topics={"jobs": 3}, settings=SETTINGS) as cluster,
        Connection(cluster.bootstrap_servers) as connection,
    ):
        group = Resource(ResourceType.GROUP, GROUP)
        change = Change("share.auto.offset.reset", "earliest")
        assert alter_configs(connection, {group: [change]}) == {group: None}
        with ShareConsumer(connection, GROUP, ["jobs"]) as consumer:
            for turn, node_id in enumerate((0, 1, 2)):
                wanted = {b"%d-%d" % (turn, number) for number in range(30)}
                with Producer(connection) as producer:
                    for number, value in enumerate(sorted(wanted)):
                        producer.send("jobs", value, partition=number % 3)
                if node_id:
                    cluster.kill(node_id)
                seen: set[bytes | None] = set()
                while not wanted <= seen:
                    for record in consumer.poll(1_000):
                        consumer.accept(record)
                        seen.add(record.value)
                if node_id:
                    cluster.restart(node_id)
                    cluster.wait_until_in_sync()
