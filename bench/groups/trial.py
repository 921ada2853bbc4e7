"""Functions that the experiments with groups share."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence

from compat.lab.broker import Broker, BrokerFailed
from compat.lab.odradek_node import metric
from compat.lab.wire_client import WireClient

from bench.environment import Contender, Environment
from bench.pauses import METRIC
from odradek.core.coordinator.placement import partition_for
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.offset_fetch_response import OffsetFetchResponse

SETTINGS = {"group.initial.rebalance.delay.ms": "3000"}
"""The default value, so that the broker waits for all members that join at the same time."""
PATIENCE_SECONDS = 300.0
POLL_SECONDS = 0.02


@contextlib.contextmanager
def brokers(roles: Sequence[str], *, rounds: int, quick: bool, mode: str) -> Iterator[Environment]:
    """Start brokers without the Java client."""
    environment = Environment(
        ours="odradek", rounds=rounds, quick=quick, settings=SETTINGS, mode=mode
    )
    with contextlib.ExitStack() as stack:
        for role in roles:
            environment.contenders.append(stack.enter_context(environment.fresh(role)))
        yield environment


def make_topics(broker: Broker, topics: Mapping[str, int]) -> None:
    """Create the topics that do not exist. Wait until all partitions are served.

    `topics` has the number of partitions by name.
    """
    wanted = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in topics.items()
    ]
    request = CreateTopicsRequest(topics=wanted, timeout_ms=60_000)
    with WireClient(broker.port, timeout=PATIENCE_SECONDS) as client:
        client.call("CreateTopics", 7, request, CreateTopicsResponse)
        deadline = time.monotonic() + PATIENCE_SECONDS
        for name, count in topics.items():
            while client.serving(name, count) < count:
                if time.monotonic() > deadline:
                    raise BrokerFailed(f"{broker.name} does not serve {name}")
                time.sleep(POLL_SECONDS)


def fetch_offsets(
    client: WireClient, groups: list[str], topic: str, partition: int
) -> dict[str, int]:
    """Return the committed offsets for a partition by group. Omit groups that are not served
    yet."""
    found = FindCoordinatorRequest(coordinator_keys=groups)
    coordinators = client.call("FindCoordinator", 4, found, FindCoordinatorResponse)
    if any(each.error_code for each in coordinators.coordinators):
        return {}
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=each, topics=[wanted]) for each in groups]
    )
    answer = client.call("OffsetFetch", 8, request, OffsetFetchResponse)
    return {
        each.group_id: each.topics[0].partitions[0].committed_offset
        for each in answer.groups
        if not each.error_code
    }


def wait_for_coordinators(broker: Broker) -> None:
    """Wait until the groups of all partitions of `__consumer_offsets` are served.

    The first request creates the topic.
    """
    groups = one_group_each(50)
    with WireClient(broker.port, timeout=PATIENCE_SECONDS) as client:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(fetch_offsets(client, groups, "nothing", 0)) < len(groups):
            if time.monotonic() > deadline:
                raise BrokerFailed(f"{broker.name} does not serve all groups")
            time.sleep(POLL_SECONDS)


def one_group_each(partitions: int, prefix: str = "group") -> list[str]:
    """Return a group id for each partition of `__consumer_offsets`."""
    found: dict[int, str] = {}
    for number in itertools.count():
        if len(found) == partitions:
            return list(found.values())
        name = f"{prefix}-{number}"
        found.setdefault(partition_for(name, partitions), name)
    raise AssertionError


def longest_pause_ms(contender: Contender) -> float | None:
    """Return the longest pause of the event loop since the last call; None for Apache Kafka."""
    if contender.metrics_port is None:
        return None
    pause = metric(contender.metrics_port, METRIC)
    return None if pause is None else pause * 1000
