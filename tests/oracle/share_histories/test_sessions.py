"""Partitions leave share sessions: brokers answer as Apache Kafka 4.4, and clients remove them (KAFKA-20736)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from compat.clients import CLIENTS
from compat.driver import Driver, Record
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.odradek_node import OdradekNode, metric
from compat.lab.toolchain import Missing, free_port
from tests.bad_input.coordinators.requests import Broker, Outcome, create_topic
from tests.bad_input.share.requests import (
    RECORDS,
    SETTINGS,
    ShareActor,
    produce,
    wait_for_share_coordinator,
)
from tests.bad_input.share.stories import ACCEPT, RELEASE, Story

pytestmark = [pytest.mark.java, pytest.mark.cluster]
DRIVERS = {each.name: each for each in CLIENTS}
TOPIC = "leaves"
PATIENCE_SECONDS = 60.0
EARLIEST = {"share.auto.offset.reset": "earliest"}


def partitions_that_leave(story: Story) -> None:
    """A session loses its partitions one after another, with records that are acquired."""
    one = story.member("one")
    one.set_offsets()
    one.fetch_all(1, 1)
    one.fetch_all(0, 2)

    def forget(case: str, *indexes: int, epoch: int | None = None) -> None:
        forgotten = [{"topic_id": story.topic_id, "partitions": list(indexes)}]
        fields = {} if epoch is None else {"share_session_epoch": epoch}
        story.case(case, one, "ShareFetch", 2, topics=[],
                   forgotten_topics_data=forgotten if indexes else [], max_wait_ms=100, **fields)  # fmt: skip

    forget("one of two", 1)
    story.acknowledge("a record of the one that left", one, (0, 0, [ACCEPT]), partition=1)
    forget("the other", 0)
    story.acknowledge("records of the other", one, (0, 1, [RELEASE, ACCEPT]))
    forget("nothing is left to leave")
    forget("left long ago", 0, 1)
    story.fetch("back", one, max_wait_ms=1_000, max_records=RECORDS)
    forget("again", 0)
    story.acknowledge("the empty session closes", one, share_session_epoch=-1, topics=[])
    forget("closed", epoch=one.session_epoch)
    one.session_epoch = 0
    story.fetch("a new session", one, max_wait_ms=1_000, max_records=RECORDS)
    forget("all at once", 0)
    forget("closed by a fetch", epoch=-1)


def outcomes(kind: type[NextApacheKafka | OdradekNode], path: Path) -> list[Outcome]:
    with kind(settings=SETTINGS, directory=path) as process:
        topic_id = create_topic(process.port)
        produce(process.port)
        wait_for_share_coordinator(process.port, topic_id)
        broker = Broker(process.port, topic_id, ShareActor)
        try:
            story = Story(broker, "partitions that leave", topic_id)
            partitions_that_leave(story)
            return story.outcomes
        finally:
            broker.close()


@pytest.mark.slow("Apache Kafka starts")
def test_sessions_that_lose_their_partitions(tmp_path: Path) -> None:
    try:
        theirs = outcomes(NextApacheKafka, tmp_path / "theirs")
    except Missing as reason:
        pytest.skip(str(reason))
    ours = outcomes(OdradekNode, tmp_path / "ours")
    assert ours == theirs


@pytest.mark.slow("members wait for heartbeats and for empty responses")
@pytest.mark.parametrize("client", ["java-4.4", "odradek"])
def test_clients_remove_partitions(tmp_path: Path, client: str) -> None:
    """The last partition of a member leaves. Java's client before 4.4 keeps it in the session."""
    port = free_port()
    settings = {"odradek.metrics.port": str(port), "auto.create.topics.enable": "false",
                "group.share.heartbeat.interval.ms": "500",
                "group.share.min.heartbeat.interval.ms": "500",
                "group.share.assignment.interval.ms": "0"}  # fmt: skip

    def partitions() -> float:
        found = metric(port, "kafka_server_sharesessioncache_sharepartitionscount")
        assert found is not None
        return found

    def until(count: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while partitions() != count:
            assert time.monotonic() < deadline, partitions()
            driver.share_poll("m", 0.2)

    def receive() -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        driver.produce(TOPIC, [Record(b"v")])
        while not driver.share_poll("m", 0.5):
            assert time.monotonic() < deadline

    try:
        command = DRIVERS[client].command()
    except Missing as reason:
        pytest.skip(str(reason))
    with OdradekNode(settings=settings, directory=tmp_path) as node:
        driver = Driver(client, command, node.port, tmp_path)
        try:
            driver.alter_group("g", EARLIEST)
            driver.share_join("m", "g", [TOPIC], {})
            for _ in range(2):
                driver.create_topic(TOPIC, 2)
                receive()
                until(2)
                driver.delete_topic(TOPIC)
                until(0)
            driver.share_leave("m")
        finally:
            driver.close()
