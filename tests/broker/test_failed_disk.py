"""A disk of a running node fails: its log directory goes offline, the others stay online."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from compat.lab.wire_client import WireClient

from odradek.testing import Broker
from odradek.testing.files import UnsyncedFileSystem
from odradek.wire.generated.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.generated.create_partitions_response import CreatePartitionsResponse

KAFKA_STORAGE_ERROR = 56


class Disks:
    """Writes to files below the broken path fail."""

    def __init__(self) -> None:
        self.broken: str | None = None
        self._paths: dict[int, str] = {}

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        descriptor = os.open(path, flags, mode)
        self._paths[descriptor] = path
        return descriptor

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        if self.broken is not None and self._paths[descriptor].startswith(self.broken):
            raise OSError(errno.EIO, "Input/output error")
        return os.pwrite(descriptor, data, position)


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Disks:
    disks = Disks()
    monkeypatch.setattr(UnsyncedFileSystem, "open", staticmethod(disks.open))
    monkeypatch.setattr(UnsyncedFileSystem, "pwrite", staticmethod(disks.pwrite))
    return disks


def produce(broker: Broker, topic: str) -> int:
    with WireClient(broker.port) as wire:
        return wire.produce_one(topic, b"value")


def stored(broker: Broker, topic: str) -> int:
    with WireClient(broker.port) as wire:
        return len(wire.batches(topic, 0))


def grow(broker: Broker, topic: str, count: int) -> None:
    grown = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[grown], timeout_ms=60_000)
    with WireClient(broker.port) as wire:
        answer = wire.call("CreatePartitions", 3, request, CreatePartitionsResponse)
    assert answer.results[0].error_code == 0


def test_one_of_two_directories(disks: Disks, tmp_path: Path, caplog) -> None:
    settings = {"log.dirs": f"{tmp_path}/first,{tmp_path}/second"}
    topics = {f"topic-{number}": 1 for number in range(4)}
    with Broker(topics=topics, settings=settings, data=str(tmp_path / "first")) as broker:
        lost = {topic for topic in topics if (tmp_path / "second" / f"{topic}-0").exists()}
        kept = set(topics) - lost
        assert len(lost) == len(kept) == 2
        assert {produce(broker, topic) for topic in topics} == {0}
        disks.broken = f"{tmp_path}/second/"
        for _ in range(2):
            assert {produce(broker, topic) for topic in lost} == {KAFKA_STORAGE_ERROR}
        assert {produce(broker, topic) for topic in kept} == {0}
        assert {stored(broker, topic) for topic in kept} == {2}
        with pytest.raises(RuntimeError, match=f"error {KAFKA_STORAGE_ERROR}"):
            stored(broker, lost.pop())
        assert not broker.node.failed.is_set()
        broker.create_topics({"new": 1})
        assert (tmp_path / "first" / "new-0").exists()
        assert produce(broker, "new") == 0
        grow(broker, "new", 2)
        assert (tmp_path / "first" / "new-1").exists()
    assert f"log directory {tmp_path}/second goes offline: could not append" in caplog.text
    assert "Traceback" not in caplog.text
    disks.broken = None
    with Broker(settings=settings, data=str(tmp_path / "first")) as broker:
        assert {stored(broker, topic) for topic in topics} == {1, 2}


def test_the_only_directory(disks: Disks, tmp_path: Path, caplog) -> None:
    """The node gives itself up, as Apache Kafka's does, and says why."""
    with Broker(topics={"topic": 1}, data=str(tmp_path)) as broker:
        assert produce(broker, "topic") == 0
        disks.broken = str(tmp_path)
        assert produce(broker, "topic") == KAFKA_STORAGE_ERROR
        assert broker.node.failed.is_set()
    assert f"the node stops: {tmp_path} has failed, and it has the metadata log" in caplog.text
    assert "the controller is not told that this broker stops" in caplog.text
    assert "Traceback" not in caplog.text
    disks.broken = None
    with Broker(data=str(tmp_path)) as broker:
        assert stored(broker, "topic") == 1
