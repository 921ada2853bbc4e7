"""Random histories of consumer groups, with failing writes and coordinator restarts: no
partition ever has two owners, and at the end each has one."""

from __future__ import annotations

from random import Random

import pytest
from tests.group.consumer_support import Member, settle
from tests.group.support import Coordinator
from tests.support.run_seed import seeds

from odradek.model.errors import ErrorCode

GROUP = "group"
TOPICS = {"t": 7, "u": 3, "v": 1}
RETRIED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class Simulation:
    """A group and its members."""

    def __init__(self, seed):
        self.random = Random(seed)
        interval_ms = self.random.choice((0, 1_000))
        self.coordinator = Coordinator(seed=seed, group_consumer_assignment_interval_ms=interval_ms)
        self.coordinator.set_topics(**TOPICS)
        self.members = []
        self.away = []
        self.count = 0

    def play(self, steps):
        actions = [self.join] * 3 + [self.leave, self.crash, self.restart, self.refuse, self.wish]
        actions += [self.go_away, self.come_back, self.run] + [self.beat] * 12
        for _ in range(steps):
            self.random.choice(actions)()
            self.check()
        self.finish()

    def check(self):
        """What members may read from, as they know it, never overlaps."""
        owned = [each for member in self.members for each in member.owned]
        assert len(owned) == len(set(owned)), sorted(owned)

    def say(self, action):
        """A request of a member; again while the coordinator cannot write."""
        for _ in range(3):
            answer = action()
            if answer not in RETRIED:
                return answer
            self.log.refusal = None
        return answer

    @property
    def log(self):
        return self.coordinator.log(GROUP)

    def some(self):
        return self.random.choice(self.members) if self.members else None

    def join(self):
        if len(self.members) >= 6:
            return
        self.count += 1
        topics = self.random.sample(sorted(TOPICS), self.random.choice((1, 2, 3, 3)))
        instance_id = f"i{self.count}" if self.random.random() < 0.3 else None
        member = Member(self.coordinator, GROUP, f"m{self.count}", *topics, instance_id=instance_id)
        member.fields = {"server_assignor": self.random.choice((None, "range", "uniform"))}
        self.log.refusal = None
        member.join()
        self.members.append(member)

    def beat(self):
        member = self.some()
        if member is None:
            return
        answer = self.say(lambda: member.beat(gives_up=self.random.random() < 0.8))
        self.take(member, answer)

    def take(self, member, answer):
        """Who was left behind gives up everything and joins again."""
        if answer in LOST:
            member.told, member.owned = set(), set()
            self.log.refusal = None
            member.join()
        else:
            assert not isinstance(answer, ErrorCode), answer

    def wish(self):
        member = self.some()
        if member is not None:
            topics = self.random.sample(sorted(TOPICS), self.random.randint(1, 3))
            answer = self.say(lambda: member.beat(subscribed_topic_names=topics))
            self.take(member, answer)
            member.topics = topics

    def leave(self):
        member = self.some()
        if member is not None:
            self.members.remove(member)
            answer = self.say(member.leave)
            assert not isinstance(answer, ErrorCode) or answer in LOST

    def crash(self):
        """It says nothing any more, and is lost later."""
        member = self.some()
        if member is not None and self.random.random() < 0.5:
            self.members.remove(member)

    def go_away(self):
        member = self.some()
        if member is not None and member.instance_id is not None:
            self.members.remove(member)
            if not isinstance(self.say(lambda: member.leave(-2)), ErrorCode):
                self.away.append(member.instance_id)

    def come_back(self):
        if self.away:
            instance_id = self.away.pop()
            self.count += 1
            member = Member(
                self.coordinator, GROUP, f"m{self.count}", "t", "u", instance_id=instance_id
            )
            self.log.refusal = None
            member.join()
            self.members.append(member)

    def restart(self):
        if self.random.random() < 0.3:
            self.log.refusal = None
            self.coordinator.restart()

    def refuse(self):
        self.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS

    def run(self):
        """Time passes, in which those who live send heartbeats."""
        self.log.refusal = None
        for _ in range(self.random.randint(1, 8)):
            self.coordinator.run(8_000)
            for member in self.members:
                self.take(member, self.say(member.beat))

    def finish(self):
        self.log.refusal = None
        for _ in range(8):  # those who have gone silent are lost
            self.coordinator.run(8_000)
            for member in self.members:
                self.take(member, self.say(member.beat))
        if not self.members:
            self.join()
        self.coordinator.run(2_000)
        owned = settle(self.members, rounds=30)
        wanted = {topic for member in self.members for topic in member.topics}
        expected = sorted((name, index) for name in wanted for index in range(TOPICS[name]))
        assert sorted(each for those in owned.values() for each in those) == expected
        for member in self.members:
            assert {name for name, _ in owned[member.member_id]} <= set(member.topics)
        before = self.picture()
        self.coordinator.restart()
        assert self.picture() == before, "the log tells the same"

    def picture(self):
        group = self.coordinator.group(GROUP)
        return (
            group.members,
            group.targets,
            group.static_members,
            group.topic_counts,
            group.assignor_counts,
            (group.group_epoch, group.assignment_epoch, group.metadata_hash),
            group._owner_epochs,
        )


@pytest.mark.parametrize("seed", seeds(40))
def test_random_heartbeats(seed):
    simulation = Simulation(seed)
    try:
        simulation.play(120)
    finally:
        simulation.coordinator.close()
