"""Whatever happens to a group, Apache Kafka and we answer the same.

A few histories by default; `ODRADEK_HISTORIES=2000 pytest tests/oracle/group_histories` for the full
run. A history that differs is played once more: on a busy machine an answer may have come too late.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from compat.lab.wire_client import WireClient
from tests.oracle.group_histories.generator import history
from tests.oracle.group_histories.player import Player
from tests.oracle.group_histories.requests import TOPICS

from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.describe_groups_request import DescribeGroupsRequest
from odradek.wire.generated.describe_groups_response import DescribeGroupsResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse

HISTORIES = int(os.environ.get("ODRADEK_HISTORIES", "20"))
FIRST = int(os.environ.get("ODRADEK_HISTORIES_FROM", "0"))
AT_ONCE = 16
PATIENCES_SECONDS = (0.15, 0.8)
"""How long an answer may take before it counts as waiting; then, at the second try."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "5",
}

pytestmark = [pytest.mark.java, pytest.mark.timeout(3600)]
Brokers = list[tuple[Broker, dict[str, bytes]]]


def create_topics(broker: Broker) -> dict[str, bytes]:
    """The topics of all histories; their ids by name."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in TOPICS.items()
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
    with WireClient(broker.port) as client:
        answer = client.call("CreateTopics", 7, request, CreateTopicsResponse)
    return {each.name: each.topic_id for each in answer.topics}


def wait_for_coordinators(broker: Broker) -> None:
    """The first question after a coordinator has the topic of offsets made."""
    groups = [f"group {number}" for number in range(100)]
    deadline = time.monotonic() + 30
    with WireClient(broker.port) as client:
        while time.monotonic() < deadline:
            find = FindCoordinatorRequest(coordinator_keys=groups)
            client.call("FindCoordinator", 4, find, FindCoordinatorResponse)
            describe = DescribeGroupsRequest(groups=groups)
            answer = client.call("DescribeGroups", 5, describe, DescribeGroupsResponse)
            if not any(each.error_code for each in answer.groups):
                return
            time.sleep(0.2)
    raise BrokerFailed(f"{broker.name} does not coordinate")


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    started: list[Broker] = []
    try:
        for kind in (ApacheKafka, OdradekNode):
            started.append(kind(settings=SETTINGS))
            started[-1].start()
        found = [(each, create_topics(each)) for each in started]
        for each in started:
            wait_for_coordinators(each)
        yield found
    except (Missing, BrokerFailed) as reason:
        pytest.skip(str(reason))
    finally:
        for each in started:
            each.close()


def play(broker: Broker, topic_ids: dict[str, bytes], number: int, patience: float) -> list[str]:
    group_id = f"group-{number}-{patience}"
    return Player(broker.port, group_id, topic_ids, patience).play(history(number))


def differences(brokers: Brokers, number: int) -> list[str]:
    """Where the answers differ, twice in a row; empty if they do not."""
    found: list[str] = []
    for patience in PATIENCES_SECONDS:
        with ThreadPoolExecutor(len(brokers)) as pool:
            playing = [pool.submit(play, *each, number, patience) for each in brokers]
            kafka, ours = (each.result() for each in playing)
        if kafka == ours:
            return []
        found = [f"history {number}"]
        for theirs, mine in zip(kafka, ours, strict=False):
            found.append(f"    {theirs}" if theirs == mine else f"  - {theirs}\n  + {mine}")
            if theirs != mine:
                break
    return found


def test_the_same_answers(brokers: Brokers) -> None:
    numbers = range(FIRST, FIRST + HISTORIES)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda number: differences(brokers, number), numbers))
    different = [each for each in outcomes if each]
    shown = "\n".join("\n".join(each[-25:]) for each in different[:6])
    assert not different, f"{len(different)} of {HISTORIES} differ:\n{shown}"
