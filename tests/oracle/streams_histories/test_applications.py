"""Kafka Streams 4.4 on Odradek: a static member that comes back keeps its tasks."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compat.clients import DRIVERS
from compat.lab import java, maven
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing, require
from compat.lab.wire_client import WireClient
from tests.support.child import Child

from odradek.core.group.streams.descriptions import KEPT_HERE
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from odradek.wire.generated.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.long]
STREAMS = (
    f"org.apache.kafka:kafka-streams:{maven.NEXT_VERSION}",
    "org.slf4j:slf4j-nop:1.7.36",
)
OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SETTINGS = {
    "group.streams.topology.description.plugin.class": KEPT_HERE,
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.num.standby.replicas": "1",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
}
PATIENCE_SECONDS = 120.0
AWAY = -2


class Application:
    """A word count with static instances."""

    def __init__(self, node: OdradekNode, client: WireClient, home: Path) -> None:
        self._node, self._client, self._home = node, client, home
        self._jars = maven.jars(f"kafka-streams-{maven.NEXT_VERSION}", STREAMS)
        source = DRIVERS / "streams" / "WordCount.java"
        paths = java.classpath(self._jars)
        command = [require("javac"), "-nowarn", "-cp", paths, "-d", home, source]
        subprocess.run(command, check=True, capture_output=True, text=True)
        self.processes: dict[str, Child] = {}

    def start(self, instance: str) -> None:
        words = java.command("WordCount", self._jars, self._home, options=OPTIONS)
        words += f"127.0.0.1:{self._node.port}", "app", "lines", "counted"
        words += str(self._home / instance), f"group.instance.id={instance}"
        self.processes[instance] = Child(words, output=self._home / f"{instance}.log")

    def stop(self, instance: str) -> None:
        with self.processes.pop(instance) as process:
            process.terminate(PATIENCE_SECONDS)

    def until(self, is_reached: Callable[[DescribedGroup], bool]) -> DescribedGroup:
        """Wait for a state of the group."""
        request = StreamsGroupDescribeRequest(group_ids=["app"], include_topology_description=True)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self._client.call(
                "StreamsGroupDescribe", 1, request, StreamsGroupDescribeResponse
            )
            (group,) = answer.groups
            if is_reached(group):
                return group
            assert time.monotonic() < deadline, group
            time.sleep(0.2)


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    try:
        require("java")
        with (
            OdradekNode(settings=SETTINGS, directory=tmp_path / "node") as node,
            WireClient(node.port) as client,
        ):
            topics = [
                CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                for name, count in {"lines": 4, "counted": 1}.items()
            ]
            request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
            client.call("CreateTopics", 7, request, CreateTopicsResponse)
            made = Application(node, client, tmp_path)
            try:
                yield made
            finally:
                for each in list(made.processes):
                    made.stop(each)
    except Missing as reason:
        pytest.skip(str(reason))


def tasks(group: DescribedGroup) -> dict[str | None, str]:
    """The tasks of each thread by its instance id."""
    return {each.instance_id: repr(each.assignment) for each in group.members}


@pytest.mark.slow("three starts of Java")
def test_a_static_member_comes_back(application: Application) -> None:
    def is_whole(group: DescribedGroup) -> bool:
        return (
            group.group_state == "Stable"
            and len(group.members) == 2
            and all(each.assignment.standby_tasks for each in group.members)
        )

    application.start("one")
    application.start("two")
    before = application.until(
        lambda group: is_whole(group) and group.topology_description_status == 3
    )
    assert before.topology_description is not None
    sinks = {
        node.sink_topic
        for each in before.topology_description.subtopologies
        for node in each.nodes
        if node.sink_topic is not None
    }
    assert sinks == {"counted", "app-words-repartition"}
    application.stop("two")
    away = application.until(lambda group: any(m.member_epoch == AWAY for m in group.members))
    assert tasks(away) == tasks(before)
    application.start("two")
    after = application.until(is_whole)
    assert tasks(after) == tasks(before)
    assert after.group_epoch == before.group_epoch
