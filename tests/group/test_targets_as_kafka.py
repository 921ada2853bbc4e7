"""Targets are the same as Apache Kafka's at each step, in the same order.

Both sides continue from their own results. The order of topics and partitions in a target is
compared too, because the next step depends on it.
"""

from __future__ import annotations

import math
import os
from random import Random
from types import SimpleNamespace

import pytest
from compat.lab.toolchain import Missing
from tests.coordinator.support import LED
from tests.group import java_oracle
from tests.support.run_seed import seeds

from odradek.config.broker_config import BrokerConfig
from odradek.config.layers import BrokerLayers
from odradek.core.group.consumer.assignors.target_copy import partition_order, topic_order
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.member import ConsumerMember
from odradek.core.group.consumer.replay import Replay
from odradek.core.group.consumer.targets import Targets
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState
from odradek.core.metadata.image import MetadataImage, TopicImage, TopicsImage
from odradek.model.java_order import DEFAULT_CAPACITY, hash_bucket, uuid_hash

GROUPS = int(os.environ.get("ODRADEK_TARGET_GROUPS", "400"))
STEPS = 12
BUCKET_KEYS_MAX = 7
"""With eight Java grows the table or makes a tree of the bucket, which is not imitated."""
SETTINGS = {
    "node.id": "1",
    "process.roles": "broker",
    "group.consumer.assignment.interval.ms": "0",
}
CLOCK = SimpleNamespace(now_ms=lambda: 1_000, monotonic_ms=lambda: 0)


def bucket(topic_id):
    return hash_bucket(uuid_hash(topic_id), DEFAULT_CAPACITY)


def topic_ids(random, count):
    """Random ids; for one group in four as many as possible in one bucket of a small Java table."""
    buckets = range(DEFAULT_CAPACITY)
    if random.random() < 0.25:
        buckets = random.sample(buckets, math.ceil(count / BUCKET_KEYS_MAX))
    found = {each: [] for each in buckets}
    while sum(map(len, found.values())) < count:
        topic_id = random.randbytes(16)
        same = found.get(bucket(topic_id))
        if same is not None and len(same) < BUCKET_KEYS_MAX:
            same.append(topic_id)
    ids = [each for same in found.values() for each in same]
    random.shuffle(ids)
    return ids


class Group:
    """One of our groups, and the questions by which Apache Kafka does the same."""

    def __init__(self, random):
        self.random = random
        self.state = GroupState(BrokerConfig(BrokerLayers(SETTINGS)), CLOCK, random.randbytes)
        self.targets = Targets(self.state, Topics(self.state))
        self.replay = Replay(self.state)
        self.group = self.state.groups["group"] = ConsumerGroup("group", self.state.journal)
        self.questions = ["begin"]
        self.expected = [""]
        ids = topic_ids(random, random.choice((1, 2, 3, 5, 8, 25)))
        self.names = [f"{random.choice(('t', 'topic-', 'x.'))}{n}" for n in range(len(ids))]
        self.ids = dict(zip(self.names, ids, strict=True))
        self.counts = {}
        for name in self.names:
            if random.random() < 0.95:  # the others are subscribed to, and do not exist
                self.create(name, random.choice((1, 2, 3, 7, 12, 40)))
        self.is_homogeneous = random.random() < 0.6
        self.votes = random.choice((("uniform",), ("range",), ("uniform", "range")))
        self.wished = self.some_names()
        self.epoch = 1

    def some_names(self):
        return self.random.sample(self.names, self.random.randint(1, len(self.names)))

    def create(self, name, count):
        self.counts[name] = count
        images = {
            name: TopicImage(name, self.ids[name], dict.fromkeys(range(count), LED))
            for name, count in self.counts.items()
        }
        by_id = {each.id: each for each in images.values()}
        self.state.image = MetadataImage(1, 1, topics=TopicsImage(images, by_id))
        self.questions.append(f"create\t{name}\t{self.ids[name].hex()}\t{count}")
        self.expected.append("")

    def step(self):
        """Some members leave, some topics grow, one member joins or changes its mind."""
        random, members = self.random, self.group.members
        for member_id in random.sample(
            sorted(members), random.choice((0, 0, 0, 0, 1, 2)) % (len(members) + 1)
        ):
            self.group.remove_target(member_id)
            self.group.remove_member(member_id)
            self.questions.append(f"remove\t{member_id}")
            self.expected.append("")
        if random.random() < 0.2:
            name = random.choice(self.names)
            self.create(name, self.counts.get(name, 0) + random.randint(1, 3))
        if self.is_homogeneous and not members:
            self.wished = self.some_names()
        self.update(self.member())

    def member(self):
        random, members = self.random, self.group.members
        names = self.wished if self.is_homogeneous else self.some_names()
        if members and random.random() < 0.3:
            member = members[random.choice(sorted(members))]
        else:
            instance_id = random.choice((None, None, f"i{random.randrange(10**6)}"))
            member = ConsumerMember(f"m{random.randrange(10**6)}", instance_id=instance_id)
        vote = random.choice(self.votes)
        return member._replace(topic_names=frozenset(names), server_assignor=vote)

    def update(self, member):
        before = self.group.members.get(member.member_id) or ConsumerMember(member.member_id)
        assignor = self.group.preferred_assignor_with(before, member)
        others = [
            each for each in self.group.members.values() if each.member_id != member.member_id
        ]
        is_homogeneous = all(each.topic_names == member.topic_names for each in others)
        self.epoch += 1
        log = []
        self.targets.update(self.group, self.epoch, before, member, is_homogeneous, log)
        self.group.update_member(member)
        for record in log:
            self.replay.by_kind[record.key.API_KEY](record.key, record.value)
        kind = "HOMOGENEOUS" if is_homogeneous else "HETEROGENEOUS"
        names = ",".join(sorted(member.topic_names))
        self.questions.append(
            f"update\t{assignor}\t{kind}\t{member.member_id}\t{member.instance_id or ''}\t{names}"
        )
        self.expected.append(self.rendered())

    def rendered(self):
        found = []
        for member_id, target in sorted(self.group.targets.items()):
            topics = ";".join(
                f"{topic_id.hex()}:{','.join(map(str, partition_order(target[topic_id])))}"
                for topic_id in topic_order(target)
            )
            found.append(f"{member_id} {topics}\t")
        return "".join(found)


def play(seed):
    group = Group(Random(seed))
    for _ in range(STEPS):
        group.step()
    return group


@pytest.mark.java
@pytest.mark.timeout(120 + GROUPS // 5)
def test_targets_are_those_of_apache_kafka():
    numbers = seeds(GROUPS)
    groups = [play(number) for number in numbers]
    try:
        answers = iter(java_oracle.ask(each for group in groups for each in group.questions))
    except Missing as reason:
        pytest.skip(str(reason))
    for seed, group in zip(numbers, groups, strict=True):
        for step, (question, expected) in enumerate(
            zip(group.questions, group.expected, strict=True)
        ):
            assert next(answers) == expected, (seed, step, question)
    assert next(answers, None) is None
