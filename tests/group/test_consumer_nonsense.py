"""Invalid heartbeats get an error or a response, and never cause an exception."""

from __future__ import annotations

from random import Random

import pytest
from tests.coordinator.support import topic_id
from tests.group.consumer_support import Member, beat, settle
from tests.group.support import Coordinator
from tests.support.run_seed import seeds

from odradek.model.errors import ErrorCode
from odradek.wire.generated.consumer_group_heartbeat_request import TopicPartitions

VALUES = {
    "instance_id": (None, None, "i", "j", "", "x" * 40_000),
    "rack_id": (None, "r", "", "\u00e4"),
    "rebalance_timeout_ms": (-1, 0, 1, -5, 30_000, 2**31 - 1, -(2**31)),
    "subscribed_topic_names": (None, [], ["t"], ["t", "t"], ["none", "", "t"], ["u"] * 500),
    "subscribed_topic_regex": (
        None,
        None,
        None,
        "",
        "[tu]",
        "(",
        "a{1000}",
        "(a*)*" * 50,
        "x" * 20_000,
    ),
    "server_assignor": (None, None, "range", "uniform", "", "none"),
    "topic_partitions": (
        None,
        [],
        [TopicPartitions(topic_id=topic_id("t"), partitions=[0, 1, 2, 3])],
        [TopicPartitions(topic_id=topic_id("t"), partitions=[-1, 7, 2**31 - 1, 0, 0])],
        [TopicPartitions(topic_id=bytes(16), partitions=[0])] * 3,
    ),
}
SENSE = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
EPOCHS = (0, 0, 0, -1, -2, -3, 1, 2, 3, 4, 5, 2**31 - 1, -(2**31))


@pytest.mark.parametrize("seed", seeds(6))
def test_invalid_heartbeats(seed):
    random = Random(seed)
    coordinator = Coordinator(seed=seed, group_consumer_assignment_interval_ms=0)
    coordinator.set_topics(t=4, u=2)
    answered = 0
    for _ in range(1_500):
        fields = dict(SENSE)
        for name in random.sample(sorted(VALUES), random.randint(1, 3)):
            fields[name] = random.choice(VALUES[name])
        member_id = random.choice(("one", "two", "three", "", "\u2603" * 50))
        version = random.choice((0, 1))
        answer = beat(
            coordinator, "group", member_id, random.choice(EPOCHS), version=version, **fields
        )
        answered += not isinstance(answer, ErrorCode)
        if random.random() < 0.05:
            coordinator.run(random.choice((10, 11_000)))
        if random.random() < 0.01:
            coordinator.restart()
    assert answered > 100, "so that something happens at all"
    coordinator.run(60_000)  # everyone is lost
    fine = Member(coordinator, "group", "fine", "t").join()
    assert settle([fine]) == {"fine": [("t", index) for index in range(4)]}
    coordinator.close()
