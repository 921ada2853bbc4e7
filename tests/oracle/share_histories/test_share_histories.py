"""Apache Kafka 4.4 and Odradek give the same responses to random histories of share groups.

`ODRADEK_SHARE_HISTORIES=2000 pytest -m cluster tests/oracle/share_histories` runs 2000 histories;
ODRADEK_HISTORY selects histories by number.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.broker import Broker
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from compat.lab.wire_client import WireClient
from tests.oracle.share_histories.generator import history
from tests.oracle.share_histories.player import TOPICS, Player
from tests.support.run_seed import numbers_of_histories

from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.model.errors import ErrorCode
from odradek.wire.generated.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.generated.create_partitions_response import CreatePartitionsResponse
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.share_group_describe_request import ShareGroupDescribeRequest
from odradek.wire.generated.share_group_describe_response import ShareGroupDescribeResponse

HISTORIES = numbers_of_histories("ODRADEK_SHARE_HISTORIES", 30)
AT_ONCE = 4
WAIT_SECONDS = 30
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.max.size": "10",
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
}
pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(600 + 5 * len(HISTORIES)),
]
Brokers = list[tuple[Broker, dict[str, bytes]]]


def create_topics(broker: Broker) -> dict[str, bytes]:
    """Create the topics of all histories. Return their ids by name."""
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        for name, count in TOPICS.items()
    ]
    with WireClient(broker.port) as client:
        request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
        answer = client.call("CreateTopics", 7, request, CreateTopicsResponse)
    assert not any(each.error_code for each in answer.topics), answer
    return {each.name: each.topic_id for each in answer.topics}


def create_coordinators(broker: Broker, topic_id: bytes) -> None:
    """Create the topics of the coordinators."""
    with WireClient(broker.port) as client:
        for key_type, key in ((0, "g"), (2, SharePartitionKey("g", topic_id, 0).text)):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            deadline = time.monotonic() + WAIT_SECONDS
            while (
                client.call("FindCoordinator", 6, request, FindCoordinatorResponse)
                .coordinators[0]
                .error_code
            ):
                assert time.monotonic() < deadline
                time.sleep(0.1)


def wait_for_coordinators(broker: Broker) -> None:
    """Wait until the group coordinator and the share coordinator have loaded their topics."""
    deadline = time.monotonic() + WAIT_SECONDS
    groups = [f"group {number}" for number in range(50)]
    waiting = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    places = [("s1", 0, {"leader_epoch": 0})]
    with WireClient(broker.port) as client:
        while True:
            request = ShareGroupDescribeRequest(group_ids=groups)
            answer = client.call("ShareGroupDescribe", 1, request, ShareGroupDescribeResponse)
            read = [
                Player(broker.port, each, {"s1": bytes(15) + b"y"}).play(
                    [("state", {"name": "ReadShareGroupState", "places": places})]
                )[0]
                for each in groups[:20]
            ]
            if not any(each.error_code in waiting for each in answer.groups) and not any(
                f"[{code.value}," in line for line in read for code in waiting
            ):
                return
            assert time.monotonic() < deadline, (answer, read)
            time.sleep(0.1)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Both brokers start with copies of one data directory, so that the topic ids are the same."""
    theirs, ours = (tmp_path_factory.mktemp(name) for name in ("theirs", "ours"))
    started: list[Broker] = []
    try:
        with OdradekNode(settings=SETTINGS, directory=ours) as first:
            topic_ids = create_topics(first)
            create_coordinators(first, topic_ids["s1"])
        shutil.copytree(ours, theirs, dirs_exist_ok=True)
        for broker in (
            NextApacheKafka(settings=SETTINGS, directory=theirs),
            OdradekNode(settings=SETTINGS, directory=ours),
        ):
            started.append(broker)
            wait_for_coordinators(broker.start())
        yield [(broker, topic_ids) for broker in started]
    except Missing as reason:
        pytest.skip(str(reason))
    finally:
        for each in started:
            each.close()


def play(broker: Broker, topic_ids: dict[str, bytes], number: int) -> list[str]:
    return Player(broker.port, f"share-{number}", topic_ids).play(history(number))


def compare(brokers: Brokers, number: int) -> list[str]:
    """Run a history on both brokers. Return the first difference and what was before it."""
    with ThreadPoolExecutor(len(brokers)) as pool:
        kafka, ours = pool.map(lambda each: play(*each, number), brokers)
    difference = [f"history {number}"]
    for theirs, mine in zip(kafka, ours, strict=True):
        difference.append(f"    {theirs}" if theirs == mine else f"  - {theirs}\n  + {mine}")
        if theirs != mine:
            return difference
    return []


@pytest.mark.slow("histories of many members are played against both brokers")
def test_the_same_responses(brokers: Brokers, figures: list[str]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        differences = [
            each for each in pool.map(lambda number: compare(brokers, number), HISTORIES) if each
        ]
    figures.append(f"{len(HISTORIES)} histories, {len(differences)} different")
    shown = "\n".join("\n".join(each[:1] + each[-12:]) for each in differences[:5])
    assert not differences, f"{len(differences)} of {len(HISTORIES)} differ\n{shown}"


def grow(broker: Broker) -> list[str]:
    """Let a topic grow while a group consumes it. Return the offsets before and after."""
    made = [CreatableTopic(name="growing", num_partitions=2, replication_factor=1)]
    grown = [CreatePartitionsTopic(name="growing", count=4, assignments=None)]
    seen = []
    with WireClient(broker.port) as client:
        answer = client.call(
            "CreateTopics",
            7,
            CreateTopicsRequest(topics=made, timeout_ms=30_000),
            CreateTopicsResponse,
        )
        assert not answer.topics[0].error_code
        topic_id = answer.topics[0].topic_id
        with Player(broker.port, "growing", {"growing": topic_id}) as player:
            player.do_beat("m1", ["growing"], epoch=0)
            seen.append(settled(player, 2))
            request = CreatePartitionsRequest(topics=grown, timeout_ms=30_000)
            changed = client.call("CreatePartitions", 3, request, CreatePartitionsResponse)
            assert not changed.results[0].error_code
            seen.append(settled(player, 4))
    return seen


def settled(player: Player, count: int) -> str:
    """Send heartbeats until `count` partitions have share state. Return their offsets."""
    deadline = time.monotonic() + WAIT_SECONDS
    while len(player.initialized()) < count:
        assert time.monotonic() < deadline
        player.do_beat("m1")
        time.sleep(0.05)
    return str(player.do_offsets(None))


def test_records_of_new_partitions_are_not_lost(brokers: Brokers) -> None:
    """Apache Kafka before 4.4 begins after the records that were produced before the heartbeat."""
    theirs, ours = (grow(broker) for broker, _ in brokers)
    assert theirs == ours
    assert "(1, -1, " in ours[1]
    assert "(2, 0, " in ours[1]


@pytest.mark.parametrize("is_ours_first", [True, False])
@pytest.mark.slow("Apache Kafka stops and starts")
def test_a_share_group_moves_with_its_data_directory(tmp_path: Path, is_ours_first: bool) -> None:
    """The groups and the share state that one broker has written are what the other one reads."""
    kinds: list[type[Broker]] = [NextApacheKafka, OdradekNode]
    looking = [("describe", {}), ("offsets", {"topics": None}), *READS, ("beat", {"member": "m1"})]
    seen: list[list[str]] = []
    try:
        for kind in sorted(kinds, key=lambda each: (each is OdradekNode) != is_ours_first):
            with kind(settings=SETTINGS, directory=tmp_path) as broker:
                if not seen:
                    topic_ids = create_topics(broker)
                    create_coordinators(broker, topic_ids["s1"])
                wait_for_coordinators(broker)
                player = Player(broker.port, "group", topic_ids)
                player.know({"m1": 3})
                seen.append(player.play([*([] if seen else MOVING), *looking])[-len(looking) :])
    except Missing as reason:
        pytest.skip(str(reason))
    before, after = seen
    assert "Stable" in before[0]
    assert before == after


READS = [
    ("state", {"name": "ReadShareGroupState", "places": [("s2", index, {"leader_epoch": 9})]})
    for index in range(2)
]
MOVING = [
    ("beat", {"member": "m1", "topics": ["s2", "s3"], "epoch": 0}),
    ("beat", {"member": "m2", "topics": ["s2"], "epoch": 0}),
    ("beat", {"member": "m1"}),
    *(
        (
            "state",
            {
                "name": "WriteShareGroupState",
                "places": [
                    (
                        "s2",
                        number % 2,
                        {
                            "state_epoch": 9,
                            "leader_epoch": 9,
                            "start_offset": number,
                            "delivery_complete_count": 1,
                            "state_batches": [(number, number + 4, 2, 1)],
                        },
                    )
                ],
            },
        )
        for number in range(15)
    ),
    *READS,
]
