"""Apache Kafka 4.4 and Odradek with copies of one data directory, for Streams groups."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.broker import Broker
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from compat.lab.wire_client import WireClient
from tests.oracle.streams_histories.player import TOPICS

from odradek.model.errors import ErrorCode
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from odradek.wire.generated.streams_group_describe_response import StreamsGroupDescribeResponse

WAIT_SECONDS = 30
SETTINGS = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": "5",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}


@contextmanager
def both(
    directories: pytest.TempPathFactory, settings: Mapping[str, str] = SETTINGS
) -> Iterator[list[Broker]]:
    """Run both brokers. Their directories are copies, so that the topic ids are the same."""
    theirs, ours = (directories.mktemp(name) for name in ("theirs", "ours"))
    started: list[Broker] = []
    try:
        with OdradekNode(settings=settings, directory=ours) as first:
            create_topics(first)
        shutil.copytree(ours, theirs, dirs_exist_ok=True)
        for broker in (
            NextApacheKafka(settings=settings, directory=theirs),
            OdradekNode(settings=settings, directory=ours),
        ):
            started.append(broker)
            wait_for_coordinator(broker.start())
        yield started
    except Missing as reason:
        pytest.skip(str(reason))
    finally:
        for each in started:
            each.close()


def create_topics(broker: Broker) -> None:
    """Create the source topics, and the topic of the coordinator."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in TOPICS.items()
    ]
    with WireClient(broker.port) as client:
        request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
        answer = client.call("CreateTopics", 7, request, CreateTopicsResponse)
        assert not any(each.error_code for each in answer.topics), answer
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        deadline = time.monotonic() + WAIT_SECONDS
        while (
            client.call("FindCoordinator", 6, find, FindCoordinatorResponse)
            .coordinators[0]
            .error_code
        ):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def wait_for_coordinator(broker: Broker) -> None:
    """Wait until the group coordinator has loaded its topic."""
    deadline = time.monotonic() + WAIT_SECONDS
    waiting = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    request = StreamsGroupDescribeRequest(group_ids=["g"])
    with WireClient(broker.port) as client:
        while True:
            answer = client.call("StreamsGroupDescribe", 0, request, StreamsGroupDescribeResponse)
            if answer.groups[0].error_code not in waiting:
                return
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)
