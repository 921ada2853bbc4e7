"""Odradek's client pushes its metrics to Apache Kafka (KIP-714), with the names of Java's client."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import NamedTuple

import pytest
from compat.clients import CLIENTS
from compat.driver import Driver, Record
from compat.lab import java
from compat.lab.apache_kafka import BriefApacheKafka
from compat.lab.maven import kafka_jars
from tests.support.waiting import until

from odradek.client import Admin, Consumer, Producer, aio
from odradek.client.admin.configs import Change, Resource, ResourceType
from odradek.telemetry import otlp

pytestmark = [pytest.mark.java, pytest.mark.cluster, pytest.mark.long]

SOURCES = Path(__file__).with_name("telemetry")


class Push(NamedTuple):
    instance: str
    is_last: bool
    client: str
    points: list[otlp.Point]


class Receiving(BriefApacheKafka):
    """A node that gives what clients push to a plugin, which writes it to a file."""

    @staticmethod
    def find_jars():
        jars = kafka_jars()
        return [java.compiled(jars, SOURCES), *jars]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    file = tmp_path_factory.mktemp("telemetry") / "pushes"
    file.touch()
    settings = {"metric.reporters": "TelemetryReceiver", "telemetry.file": str(file)}
    node = Receiving(settings=settings)
    try:
        node.start()
        with Admin(bootstrap_servers=node.bootstrap) as admin:
            admin.create_topic("t", partitions=1)
            resource = Resource(ResourceType.CLIENT_METRICS, "all")
            changes = [Change("metrics", "*"), Change("interval.ms", "200")]
            admin.incremental_alter_configs({resource: changes})
        yield node, file
    finally:
        node.close()


def pushes(file, client):
    found = []
    for line in file.read_text().splitlines():
        instance, is_last, content_type, name, data = line.split("\t")
        assert content_type == "OTLP"
        if name == client:
            points = otlp.points(base64.b64decode(data))
            found.append(Push(instance, is_last == "true", name, points))
    return found


def blocking(settings, file):
    with Producer(settings) as producer, Consumer(settings, **GROUP) as consumer:
        consumer.subscribe(["t"])
        producer.send("t", b"1").wait(60)
        assert next(iter(consumer)).value
        before = len(pushes(file, settings["client.id"]))
        until(lambda: len(pushes(file, settings["client.id"])) > before + 8)


def awaiting(settings, file):
    async def run():
        async with aio.Producer(settings) as producer, aio.Consumer(settings, **GROUP) as consumer:
            consumer.subscribe(["t"])
            await (await producer.send("t", b"1"))
            assert (await anext(aiter(consumer))).value
            before = len(pushes(file, settings["client.id"]))
            async with asyncio.timeout(60):
                while len(pushes(file, settings["client.id"])) <= before + 8:
                    await asyncio.sleep(0.1)

    asyncio.run(run())


GROUP = {"group_id": "g", "auto_offset_reset": "earliest"}
SHELLS = {"blocking": blocking, "asyncio": awaiting}


def java_metrics(node, file, logs):
    """Return the metrics that Java's producer and consumer push: names, and attributes."""
    (client,) = (each for each in CLIENTS if each.name == "java")
    driver = Driver("java", client.command(), node.port, logs)
    try:
        for number in range(3):
            driver.produce("t", [Record(b"%d" % number)])
        driver.join("m", "java", ["t"])
        driver.poll("m", 1, 5.0)
        driver.leave("m")
    finally:
        driver.close()
    clients = {line.split("\t")[3] for line in file.read_text().splitlines()}
    return {
        (point.name, point.attributes)
        for client in clients
        for push in pushes(file, client)
        for point in push.points
    }


def test_metrics_reach_apache_kafka_with_the_names_of_java(node, tmp_path):
    broker, file = node
    theirs = java_metrics(broker, file, tmp_path)
    for shell, run in SHELLS.items():
        run({"bootstrap.servers": broker.bootstrap, "client.id": shell}, file)
        found = pushes(file, shell)
        by_instance = {}
        for each in found:
            by_instance.setdefault(each.instance, []).append(each)
        assert len(by_instance) == 2
        for some in by_instance.values():
            assert [each.is_last for each in some] == [False] * (len(some) - 1) + [True]
        ours = {(point.name, point.attributes) for each in found for point in each.points}
        assert len({name for name, _ in ours}) == 20
        assert ours - theirs == set()
