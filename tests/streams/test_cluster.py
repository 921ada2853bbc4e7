"""Streams groups with several brokers: coordinators die while tasks move, and levels of features change."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from compat.lab.wire_client import WireClient
from tests.streams.support import GROUP, STATELESS, ids

from odradek.model.errors import ErrorCode as E
from odradek.testing import Cluster
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from odradek.wire.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from odradek.wire.generated.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from odradek.wire.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.generated.update_features_response import UpdateFeaturesResponse

pytestmark = pytest.mark.cluster

TASKS = set(range(6))
OFFSETS = "__consumer_offsets"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
NOT_NOW = {E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS}
UPGRADE, SAFE_DOWNGRADE = 1, 2
WAIT_SECONDS = 0.02


def ports(cluster: Cluster) -> list[int]:
    """Return the ports of all nodes, running or not."""
    return [int(each.rpartition(":")[2]) for each in cluster.bootstrap_servers.split(",")]


def coordinator_port(cluster: Cluster) -> int | None:
    """Return the port of the coordinator as the first running node knows it; None if there is none."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    for port in ports(cluster):
        try:
            with WireClient(port) as client:
                response = client.call("FindCoordinator", 4, request, FindCoordinatorResponse)
        except OSError:
            continue
        (found,) = response.coordinators
        return None if found.error_code else found.port
    return None


class Member:
    """A member that revokes tasks as soon as it is told to."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.tasks: set[int] = set()
        self._cluster = cluster

    def beat(self) -> E | None:
        """Send a heartbeat. Return its error; None if there was no response."""
        port = coordinator_port(self._cluster)
        if port is None:
            return None
        joining = {
            "topology": STATELESS,
            "rebalance_timeout_ms": 60_000,
            "process_id": self.name,
        }
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.name,
            member_epoch=self.epoch,
            active_tasks=ids({"0": sorted(self.tasks)} if self.tasks else {}),
            standby_tasks=[],
            warmup_tasks=[],
            **({} if self.epoch else joining),
        )
        try:
            with WireClient(port) as client:
                response = client.call(
                    "StreamsGroupHeartbeat", 0, request, StreamsGroupHeartbeatResponse
                )
        except OSError:
            return None
        if response.error_code == E.FENCED_MEMBER_EPOCH:  # the response before it was lost
            self.epoch, self.tasks = 0, set()
        if not response.error_code:
            assert response.member_epoch >= self.epoch
            self.epoch = response.member_epoch
            if response.active_tasks is not None:
                self.tasks = {part for each in response.active_tasks for part in each.partitions}
        return E(response.error_code)


def beat_until_shared(members: list[Member]) -> None:
    """Send heartbeats until the members have all tasks. No task ever has two owners."""
    while True:
        codes = {each.beat() for each in members}
        assert codes <= {None, E.NONE, E.FENCED_MEMBER_EPOCH, *NOT_NOW}
        for one, other in combinations(members, 2):
            assert not one.tasks & other.tasks, f"{one.name} and {other.name}"
        sizes = [len(each.tasks) for each in members]
        if codes == {E.NONE} and sum(sizes) == len(TASKS) and max(sizes) - min(sizes) <= 1:
            assert set.union(*(each.tasks for each in members)) == TASKS
            return
        time.sleep(WAIT_SECONDS)


def test_tasks_move_while_coordinators_die() -> None:
    with Cluster(3, topics={"in": len(TASKS)}, settings=SETTINGS) as cluster:
        members = [Member(cluster, "a"), Member(cluster, "b")]
        beat_until_shared(members)
        for name in ("c", "d"):
            newcomer = Member(cluster, name)
            while not newcomer.epoch:
                newcomer.beat()
            members[0].beat()  # it learns what to revoke; the others do not yet
            members.append(newcomer)
            node_id = cluster.leader(OFFSETS)
            cluster.kill(node_id)
            beat_until_shared(members)
            cluster.restart(node_id)
            cluster.wait_until_in_sync()


def set_level(cluster: Cluster, feature: str, level: int, kind: int) -> None:
    """Set the level of a feature through a broker that need not be the controller."""
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[update])
    with WireClient(ports(cluster)[cluster.controller() % 3]) as client:
        response = client.call("UpdateFeatures", 2, request, UpdateFeaturesResponse)
    assert response.error_code == 0, response.error_message


def share_heartbeats(cluster: Cluster) -> set[int]:
    """Return the errors of heartbeats of share groups to all nodes."""
    request = ShareGroupHeartbeatRequest(
        group_id="workers", member_id="a", member_epoch=0, subscribed_topic_names=["in"]
    )
    codes = set()
    for port in ports(cluster):
        with WireClient(port) as client:
            response = client.call("ShareGroupHeartbeat", 1, request, ShareGroupHeartbeatResponse)
        codes.add(response.error_code)
    return codes


def test_levels_of_features_are_lowered_and_raised() -> None:
    with Cluster(3, topics={"in": len(TASKS)}, settings=SETTINGS) as cluster:
        member = Member(cluster, "a")
        beat_until_shared([member])
        before = member.epoch
        set_level(cluster, "streams.version", 0, SAFE_DOWNGRADE)
        while member.beat() is not E.UNSUPPORTED_VERSION:
            time.sleep(WAIT_SECONDS)
        set_level(cluster, "streams.version", 1, UPGRADE)
        while (code := member.beat()) is not E.NONE:
            assert code is E.UNSUPPORTED_VERSION
            time.sleep(WAIT_SECONDS)
        assert (member.epoch, member.tasks) == (before, TASKS)

        set_level(cluster, "share.version", 0, SAFE_DOWNGRADE)
        while share_heartbeats(cluster) != {E.UNSUPPORTED_VERSION}:
            time.sleep(WAIT_SECONDS)
        set_level(cluster, "share.version", 1, UPGRADE)
        while E.UNSUPPORTED_VERSION in share_heartbeats(cluster):
            time.sleep(WAIT_SECONDS)
        assert E.NONE in share_heartbeats(cluster)
