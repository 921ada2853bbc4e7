"""Members of consumer groups for tests."""

from __future__ import annotations

from tests.coordinator.support import topic_id

from odradek.model.errors import ErrorCode
from odradek.wire.generated.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)


def beat(coordinator, group_id, member_id, epoch, *, version=1, **fields):
    """The answer to one heartbeat, or the error code of its refusal."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id=member_id, member_epoch=epoch, **fields
    )
    context = coordinator.context(version)
    return coordinator.call(coordinator.groups.consumer_heartbeat, context, request)


def as_topics(partitions):
    """(topic, partition) pairs as a heartbeat has them."""
    by_topic = {}
    for name, index in sorted(partitions):
        by_topic.setdefault(name, []).append(index)
    return [
        TopicPartitions(topic_id=topic_id(name), partitions=those)
        for name, those in by_topic.items()
    ]


class Member:
    """A well-behaved member: gives up what it was told to give up, and says so."""

    def __init__(self, coordinator, group_id, member_id, *topics, instance_id=None, **fields):
        self.coordinator = coordinator
        self.group_id = group_id
        self.member_id = member_id
        self.topics = list(topics)
        self.instance_id = instance_id
        self.fields = fields
        self.epoch = 0
        self.told = set()
        self.owned = set()

    def join(self):
        """Join; the answer or error code."""
        self.epoch = 0
        self.owned = set()
        answer = self.say(
            0,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=self.topics,
            topic_partitions=[],
            instance_id=self.instance_id,
            **self.fields,
        )
        assert answer.assignment is not None, "who joins is told its assignment"
        return self

    def say(self, epoch, **fields):
        answer = beat(self.coordinator, self.group_id, self.member_id, epoch, **fields)
        if not isinstance(answer, ErrorCode):
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                names = {topic_id(name): name for name in self.coordinator.image.topics.by_name}
                self.told = {
                    (names[topic.topic_id], index)
                    for topic in answer.assignment.topic_partitions
                    for index in topic.partitions
                }
        return answer

    def beat(self, *, gives_up=True, **fields):
        """A heartbeat that tells what the member owns; it takes what it was told first."""
        self.owned = set(self.told) if gives_up else self.owned | self.told
        owned = as_topics(self.owned)
        return self.say(self.epoch, topic_partitions=owned, instance_id=self.instance_id, **fields)

    def leave(self, epoch=-1):
        answer = self.say(epoch, instance_id=self.instance_id)
        self.told, self.owned = set(), set()
        return answer


def settle(members, rounds=12):
    """Let members send heartbeats until two rounds change nothing; what each owns."""
    members = list(members)
    before = None
    for _ in range(rounds):
        for member in members:
            answer = member.beat()
            assert not isinstance(answer, ErrorCode), (member.member_id, answer)
        now = [(each.epoch, sorted(each.told)) for each in members]
        if now == before:
            return {each.member_id: sorted(each.told) for each in members}
        before = now
    raise AssertionError(f"the group does not settle: {before}")
