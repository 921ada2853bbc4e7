"""Many new partitions are created a few per turn of the event loop."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from compat.lab.wire_client import WireClient
from tests.log.support import TOPIC_ID

from odradek.broker.partitions import replica_manager
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.config.load import load
from odradek.core.metadata.image import EMPTY_IMAGE
from odradek.env.clock import SystemClock
from odradek.log import LogManager
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker
from odradek.testing.files import UnsyncedFileSystem
from odradek.wire.generated.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.generated.create_partitions_response import CreatePartitionsResponse
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest
from odradek.wire.generated.delete_topics_response import DeleteTopicsResponse

COUNT = 200
FOR_EVER_MS = 60_000


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A broker with a disk on which one partition takes all the time of a turn."""
    monkeypatch.setattr(replica_manager, "OPENING_SECONDS", 0)
    with Broker() as broker:
        yield broker


def create(client: WireClient, count: int, timeout_ms: int = FOR_EVER_MS) -> int:
    """Create the topic; the error code, which may be REQUEST_TIMED_OUT: it is done all the same."""
    topic = CreatableTopic(name="many", num_partitions=count, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)
    answer = client.call("CreateTopics", 7, request, CreateTopicsResponse)
    code: int = answer.topics[0].error_code
    return code


def test_who_has_created_them_may_use_them_all(broker: Broker) -> None:
    with WireClient(broker.port) as client:
        turns = broker.node.selector.turns
        assert create(client, COUNT) == 0
        assert broker.node.selector.turns - turns >= COUNT
        assert len(client.end_offsets("many", COUNT)) == COUNT
        grown = CreatePartitionsTopic(name="many", count=2 * COUNT, assignments=None)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=FOR_EVER_MS)
        answer = client.call("CreatePartitions", 3, request, CreatePartitionsResponse)
        assert answer.results[0].error_code == 0
        assert len(client.end_offsets("many", 2 * COUNT)) == 2 * COUNT


def test_what_is_deleted_meanwhile_is_not_made(broker: Broker) -> None:
    with WireClient(broker.port) as client:
        assert create(client, 5 * COUNT, timeout_ms=1) in (0, ErrorCode.REQUEST_TIMED_OUT)
        # Most of them are not opened yet, unless this process has waited for a processor.
        request = DeleteTopicsRequest(topic_names=["many"], timeout_ms=FOR_EVER_MS)
        answer = client.call("DeleteTopics", 5, request, DeleteTopicsResponse)
        assert answer.responses[0].error_code == 0
        assert create(client, 1) == 0
        assert len(client.end_offsets("many", 2)) == 1
        assert len(broker.node.broker.storage.logs) == 1


def test_a_stop_does_not_wait_for_them(broker: Broker) -> None:
    with WireClient(broker.port) as client:
        assert create(client, 5 * COUNT, timeout_ms=1) in (0, ErrorCode.REQUEST_TIMED_OUT)
    broker.restart()
    with WireClient(broker.port) as client:
        assert len(client.end_offsets("many", 5 * COUNT)) == 5 * COUNT


def test_a_topic_that_was_created_again_while_the_node_was_stopped(tmp_path: Path) -> None:
    """The log of the former topic is put aside, and the new topic begins with an empty log."""
    with Broker(topics={"topic": 1}, data=str(tmp_path)) as broker:
        with WireClient(broker.port) as client:
            assert client.produce_one("topic", b"of the former topic") == 0
        broker.stop()
        metadata = tmp_path / "topic-0" / "partition.metadata"
        assert "topic_id: " in metadata.read_text()
        metadata.write_text("version: 0\ntopic_id: 3Db5QLSqSZieL3rJBUUegA\n")
        broker.start()
        with WireClient(broker.port) as client:
            assert client.produce_one("topic", b"of the new topic") == 0
            assert client.end_offsets("topic", 1) == {0: 1}
    assert len(list(tmp_path.glob("topic-0.*-stray"))) == 1


def test_a_disk_that_fails_when_a_stray_log_is_renamed(tmp_path: Path) -> None:
    """The log directory is offline, and the node goes on with the other one."""

    class Failing(UnsyncedFileSystem):
        def rename(self, source: str, target: str) -> None:
            if target.startswith(f"{tmp_path}/1/"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().rename(source, target)

    settings = {"log.dirs": f"{tmp_path}/1,{tmp_path}/2", "log.cleaner.enable": "false"}
    config = load(None, settings, data_directory=str(tmp_path)).config
    logs = LogManager(
        config,
        Failing(),
        SystemClock(),
        os.urandom,
        topic_configs=lambda topic: config.topic_config({}),
    )
    logs.start()
    for index, directory in enumerate(logs.directories):
        partition = TopicPartition("a", index)
        logs.prefer(partition, directory)
        logs.get_or_create(partition, TOPIC_ID, is_new=True)
    loop = asyncio.new_event_loop()
    ReplicaManager(1, logs, loop).load(EMPTY_IMAGE)
    loop.close()
    assert not logs.logs
    assert [each.path for each in logs.online_directories] == [f"{tmp_path}/2"]
    assert len(list((tmp_path / "2").glob("a-1.*-stray"))) == 1
    logs.shutdown()
