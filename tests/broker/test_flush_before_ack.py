"""With `flush.messages=1` records are acknowledged and readable only after they are flushed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.testing import Broker
from odradek.testing.files import UnsyncedFileSystem

PATIENCE_SECONDS = 20


class Disk:
    """A disk whose syncs wait for a sign, and may fail."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.begun = threading.Event()
        self.syncs = 0
        self.is_broken = False

    def sync(self, _: int) -> None:
        self.begun.set()
        assert self.is_open.wait(PATIENCE_SECONDS)
        self.syncs += 1
        if self.is_broken:
            raise OSError(5, "Input/output error")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(UnsyncedFileSystem, "fdatasync", staticmethod(disk.sync))
    yield disk
    disk.is_open.set()


@pytest.fixture
def broker(disk: Disk) -> Iterator[Broker]:
    disk.is_open.set()
    with Broker(topics={"sure": 2}, settings={"log.flush.interval.messages": "1"}) as broker:
        disk.is_open.clear()
        disk.begun.clear()
        yield broker
        disk.is_open.set()


def _producer(broker: Broker, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **settings})


def _end(broker: Broker, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "t"})
    try:
        return consumer.get_watermark_offsets(TopicPartition("sure", partition), PATIENCE_SECONDS)[
            1
        ]
    finally:
        consumer.close()


@pytest.mark.parametrize("acks", ["all", 1])
def test_the_answer_and_consumers_wait_for_the_disk(broker: Broker, disk: Disk, acks: object):
    errors: list[object] = []
    producer = _producer(broker, acks=acks)
    producer.produce("sure", b"1", partition=0, on_delivery=lambda error, _: errors.append(error))
    while not disk.begun.wait(0.01):
        producer.poll(0.01)
    producer.poll(0.2)
    assert errors == []
    assert _end(broker) == 0
    disk.is_open.set()
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert errors == [None]
    assert _end(broker) == 1


def test_many_wait_for_one_flush(broker: Broker, disk: Disk):
    producers = [_producer(broker, **{"linger.ms": 0}) for _ in range(8)]
    errors: list[object] = []
    for number, producer in enumerate(producers):
        producer.produce(
            "sure", b"x", partition=number % 2, on_delivery=lambda error, _: errors.append(error)
        )
    while not disk.begun.wait(0.01):
        producers[0].poll(0.01)
    for producer in producers:
        producer.poll(0.1)
    before = disk.syncs
    disk.is_open.set()
    assert [producer.flush(PATIENCE_SECONDS) for producer in producers] == [0] * 8
    assert errors == [None] * 8
    assert disk.syncs - before < 8
    assert _end(broker, 0) + _end(broker, 1) == 8


def test_a_failed_flush_is_no_acknowledgement(broker: Broker, disk: Disk):
    errors: list[object] = []
    producer = _producer(broker, **{"acks": "all", "retries": 0, "message.timeout.ms": 1500})
    producer.produce("sure", b"1", partition=0, on_delivery=lambda error, _: errors.append(error))
    while not disk.begun.wait(0.01):
        producer.poll(0.01)
    disk.is_broken = True
    disk.is_open.set()
    producer.flush(PATIENCE_SECONDS)
    assert len(errors) == 1
    assert errors[0] is not None
