"""An application of Kafka Streams 4.4 with static members, and what brokers say about its group."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from compat.clients import DRIVERS
from compat.lab import java, maven
from compat.lab.toolchain import require
from compat.lab.wire_client import WireClient
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.child import Child

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, check
from odradek.core.group.streams.descriptions import KEPT_HERE
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from odradek.wire.generated.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)

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
    # On a busy machine Java needs a minute to start.
    "group.streams.session.timeout.ms": "600000",
    "group.streams.max.session.timeout.ms": "600000",
    "offsets.topic.num.partitions": "1",
}
PATIENCE_SECONDS = 180.0
APPLICATION = "app"
LINES, COUNTED = "lines", "counted"
AWAY = -2
AVAILABLE = 3
TEXT = [f"the {word} and the {other}" for word in "abcd" for other in "wxyz"]


def create_topics(port: int, replication_factor: int = 1) -> None:
    """Create the topics of the application."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=replication_factor)
        for name, count in {LINES: 4, COUNTED: 1}.items()
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
    with WireClient(port) as client:
        answer = client.call("CreateTopics", 7, request, CreateTopicsResponse)
    assert not any(each.error_code for each in answer.topics), answer


class Seen(NamedTuple):
    """What is the same on every broker of a description of the group."""

    state: str
    assignor: str | None
    topology: str
    tasks: list[tuple[int, int, int]]
    """Numbers of active, standby and warm-up tasks of each member."""
    held: list[tuple[str, int]]
    """The active tasks of all members."""
    epochs: dict[str | None, bool]
    """Whether each static member is there."""
    description: str | None


class Application:
    """A word count, exactly once, with static instances."""

    def __init__(self, bootstrap: str, home: Path) -> None:
        self._bootstrap, self._home = bootstrap, home
        self._jars = maven.jars(f"kafka-streams-{maven.NEXT_VERSION}", STREAMS)
        home.mkdir(parents=True, exist_ok=True)
        source = DRIVERS / "streams" / "WordCount.java"
        paths = java.classpath(self._jars)
        command = [require("javac"), "-nowarn", "-cp", paths, "-d", home, source]
        subprocess.run(command, check=True, capture_output=True, text=True)
        self.processes: dict[str, Child] = {}
        self.written = 0

    def start(self, instance: str) -> None:
        """Start an instance."""
        words = java.command("WordCount", self._jars, self._home, options=OPTIONS)
        words += self._bootstrap, APPLICATION, LINES, COUNTED
        words += str(self._home / instance), f"group.instance.id={instance}"
        self.processes[instance] = Child(words, output=self._home / f"{instance}.log")

    def stop(self, instance: str) -> None:
        """Stop an instance, which keeps its tasks."""
        with self.processes.pop(instance) as process:
            process.terminate(PATIENCE_SECONDS)

    def close(self) -> None:
        """Stop all instances."""
        for each in list(self.processes):
            self.stop(each)

    def write(self) -> None:
        """Write all lines once more."""
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})
        for number, line in enumerate(TEXT):
            producer.produce(LINES, line, str(number))
        assert producer.flush(PATIENCE_SECONDS) == 0
        self.written += 1

    def until_counted(self) -> None:
        """Wait until every word is counted as often as it was written."""
        once = Counter(word for line in TEXT for word in line.split())
        expected = {word: count * self.written for word, count in once.items()}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := self._counts()) != expected:
            assert time.monotonic() < deadline, (found, expected)
            time.sleep(0.5)

    def _counts(self) -> dict[str, int]:
        """Return the last count of each word, as transactions have committed it."""
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "looks"}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        found: dict[str, int] = {}
        try:
            consumer.assign([TopicPartition(COUNTED, 0, 0)])
            while (message := consumer.poll(2.0)) is not None:
                if message.error() is None:
                    found[message.key().decode()] = int(message.value())
        finally:
            consumer.close()
        return found

    def describe(self) -> DescribedGroup:
        """Ask the coordinator for the group."""
        request = StreamsGroupDescribeRequest(
            group_ids=[APPLICATION], include_topology_description=True
        )
        with Cluster(self._bootstrap) as cluster:
            answer = cluster.ask_coordinator(
                APPLICATION,
                request,
                StreamsGroupDescribeResponse,
                lambda response: check(response.groups[0].error_code),
            )
        return answer.groups[0]

    def until(self, is_reached: Callable[[DescribedGroup], bool]) -> DescribedGroup:
        """Wait for a state of the group."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        found: object = None
        while time.monotonic() < deadline:
            try:
                found = group = self.describe()
                if is_reached(group):
                    return group
            except ClientError as error:
                found = error  # no coordinator at the moment
            time.sleep(0.2)
        raise AssertionError(found)


def is_whole(group: DescribedGroup) -> bool:
    """Whether two members have active and standby tasks, and nobody has more to do."""
    return (
        group.group_state == "Stable"
        and len(group.members) == 2
        and all(each.assignment.standby_tasks for each in group.members)
        and all(each.member_epoch == group.assignment_epoch for each in group.members)
    )


def tasks(group: DescribedGroup) -> Mapping[str | None, str]:
    """Return the tasks of each member by its instance id."""
    return {each.instance_id: repr(each.assignment) for each in group.members}


def seen(group: DescribedGroup) -> Seen:
    """Return what must be the same on every broker."""
    counts, held = [], []
    for each in group.members:
        kinds = (
            each.assignment.active_tasks,
            each.assignment.standby_tasks,
            each.assignment.warmup_tasks,
        )
        active, standby, warm_up = (sum(len(tasks.partitions) for tasks in some) for some in kinds)
        counts.append((active, standby, warm_up))
        held += [(one.subtopology_id, index) for one in kinds[0] for index in one.partitions]
    return Seen(
        group.group_state,
        group.assignor_name,
        repr(group.topology),
        sorted(counts),
        sorted(held),
        {each.instance_id: each.member_epoch != AWAY for each in group.members},
        None if group.topology_description is None else repr(group.topology_description),
    )


def play(application: Application) -> Iterator[Seen]:
    """Let a static member go and come back, and yield the group after each step."""
    application.start("one")
    application.write()
    application.until_counted()
    application.start("two")
    before = application.until(
        lambda group: is_whole(group) and group.topology_description_status == AVAILABLE
    )
    yield seen(before)
    application.stop("two")
    away = application.until(lambda group: any(m.member_epoch == AWAY for m in group.members))
    assert tasks(away) == tasks(before)
    yield seen(away)
    application.start("two")
    after = application.until(is_whole)
    assert tasks(after) == tasks(before)
    assert after.group_epoch == before.group_epoch
    yield seen(after)
    application.write()
    application.until_counted()
    yield seen(application.until(is_whole))
