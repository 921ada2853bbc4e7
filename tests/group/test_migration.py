"""Online migration of groups between protocols."""

from __future__ import annotations

import pytest
from tests.group.consumer_support import Member, beat, settle
from tests.group.support import Coordinator, Generation, subscription

from odradek.core.group.consumer_protocol import read_assignment, write_assignment
from odradek.model.errors import ErrorCode
from odradek.wire.generated.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)

GROUP = "group"
RANGE = (("range", subscription("t")),)
COOPERATIVE = (("cooperative-sticky", subscription("t")),)
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
JOIN = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []}


@pytest.fixture
def coordinator():
    made = Coordinator(group_consumer_assignment_interval_ms=0)
    made.set_topics(t=4)
    yield made
    made.close()


def kind(coordinator):
    return coordinator.group(GROUP).type.value


def partitions(assignment):
    return [
        p for topic in read_assignment(assignment).assigned_partitions for p in topic.partitions
    ]


class Classic:
    """A member that goes on with JoinGroup and SyncGroup."""

    def __init__(self, coordinator, member_id, generation, instance_id=None):
        self.coordinator = coordinator
        self.member_id = member_id
        self.generation = generation
        self.instance_id = instance_id

    def heartbeat(self):
        return self.coordinator.heartbeat(GROUP, self.member_id, self.generation, self.instance_id)

    def rejoin(self, *owned, protocols=RANGE):
        """Join and sync; the partitions that it gets."""
        future = self.coordinator.join(
            GROUP, self.member_id, protocols=with_owned(protocols, owned),
            instance_id=self.instance_id,
        )  # fmt: skip
        answer = self.coordinator.get(future)
        assert answer.error_code == 0, answer
        self.generation = answer.generation_id
        return self.sync()

    def sync(self):
        answer = self.coordinator.get(
            self.coordinator.sync(
                GROUP, self.member_id, self.generation, group_instance_id=self.instance_id
            )
        )
        return partitions(answer.assignment)


def with_owned(protocols, owned):
    """The subscription to `t` that tells what the member owns."""
    message = ConsumerProtocolSubscription(
        topics=["t"], owned_partitions=[TopicPartition(topic="t", partitions=list(owned))]
    )
    return tuple((name, b"\x00\x01" + message.encode(1)) for name, _ in protocols)


def classic_group(coordinator, count=1):
    """A classic group whose members have equal parts of `t`."""
    ids = [coordinator.new_member(GROUP, protocols=RANGE) for _ in range(count)]
    joins = [coordinator.join(GROUP, each, protocols=RANGE) for each in ids]
    coordinator.run(10_000)
    answers = [coordinator.get(each) for each in joins]
    parts = {}
    for number, each in enumerate(ids):
        mine = [index for index in range(4) if index % count == number]
        parts[each] = write_assignment({"t": mine}, like=subscription("t"))
    generation = answers[0].generation_id
    leader = answers[0].leader
    syncs = [
        coordinator.sync(GROUP, each, generation, parts if each == leader else None) for each in ids
    ]
    coordinator.run()
    assert all(coordinator.get(each).error_code == 0 for each in syncs)
    return [Classic(coordinator, each, generation) for each in ids]


def test_upgrade_and_downgrade_with_members_of_both_protocols(coordinator):
    (old,) = classic_group(coordinator)
    new = Member(coordinator, GROUP, "new", "t").join()
    assert kind(coordinator) == "consumer"
    assert new.told == set(), "the other has everything"
    assert old.heartbeat() == REBALANCE
    assert old.rejoin(0, 1, 2, 3) == [0, 1], "it has to give up the rest"
    assert old.heartbeat() == REBALANCE
    assert old.rejoin(0, 1) == [0, 1]
    assert old.heartbeat() == ErrorCode.NONE
    assert settle([new]) == {"new": [("t", 2), ("t", 3)]}
    assert coordinator.group(GROUP).state_name == "Stable"
    coordinator.restart()
    assert old.heartbeat() == ErrorCode.NONE
    new.leave()
    assert kind(coordinator) == "classic"
    assert old.heartbeat() == REBALANCE
    assert coordinator.group(GROUP).state_name == "PreparingRebalance"
    coordinator.restart()
    assert (kind(coordinator), list(coordinator.group(GROUP).members)) == (
        "classic",
        [old.member_id],
    )


def test_a_classic_member_joins_a_consumer_group(coordinator):
    new = Member(coordinator, GROUP, "new", "t").join()
    member_id = coordinator.new_member(GROUP, protocols=RANGE)
    old = Classic(coordinator, member_id, -1)
    assert old.rejoin() == []
    settle([new])
    assert old.heartbeat() == REBALANCE
    assert len(old.rejoin()) == 2
    (described,) = coordinator.get(coordinator.groups.describe_consumer_groups([GROUP]))
    assert {each.member_id: each.member_type for each in described.members} == {
        "new": 1,
        member_id: 0,
    }
    commit = coordinator.commit(
        GROUP, {("t", 0): 3}, member_id=member_id, generation=old.generation, version=8
    )
    assert commit == {("t", 0): ErrorCode.NONE}
    stale = coordinator.commit(
        GROUP, {("t", 0): 3}, member_id=member_id, generation=old.generation + 1, version=8
    )
    assert stale == ErrorCode.ILLEGAL_GENERATION


def test_classic_members_that_do_not_rejoin_are_removed(coordinator):
    first, second = classic_group(coordinator, 2)
    new = Member(coordinator, GROUP, "new", "t").join()
    assert first.heartbeat() == REBALANCE
    assert second.heartbeat() == REBALANCE
    assert len(first.rejoin(0, 2)) == 2
    for _ in range(4):  # the session of both is ten seconds, their rebalance timeout thirty
        coordinator.run(9_000)
        first.heartbeat()
        second.heartbeat()
        new.beat()
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.heartbeat() in (ErrorCode.NONE, REBALANCE)
    coordinator.run(11_000)
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_joined_has_to_send_a_sync(coordinator):
    Member(coordinator, GROUP, "new", "t").join()
    member_id = coordinator.new_member(GROUP, protocols=RANGE)
    answer = coordinator.get(coordinator.join(GROUP, member_id, protocols=RANGE))
    old = Classic(coordinator, member_id, answer.generation_id)
    for _ in range(4):
        coordinator.run(9_000)
        old.heartbeat()
        beat(coordinator, GROUP, "new", 2)
    assert old.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_refused_requests_of_classic_members(coordinator):
    (old,) = classic_group(coordinator)
    Member(coordinator, GROUP, "new", "t").join()
    assert old.coordinator.heartbeat(GROUP, "new", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(GROUP, old.member_id, 9) == ErrorCode.ILLEGAL_GENERATION
    refused = coordinator.join(GROUP, protocols=COOPERATIVE)
    assert refused == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.get(coordinator.sync(GROUP, old.member_id, old.generation)) == REBALANCE
    wrong = coordinator.sync(GROUP, old.member_id, old.generation, protocol_name="other")
    assert wrong == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.sync(GROUP, "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    answers = coordinator.leave(GROUP, "nobody", old.member_id)
    assert answers == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert list(coordinator.group(GROUP).members) == ["new"]


def test_static_members_change_their_protocol_one_by_one(coordinator):
    new = Member(coordinator, GROUP, "new", "t", instance_id="i").join()
    assert len(new.told) == 4
    answer = coordinator.get(coordinator.join(GROUP, instance_id="i", protocols=RANGE))
    assert answer.error_code == 0
    assert kind(coordinator) == "classic", "it was the last member of the new protocol"
    old = Classic(coordinator, answer.member_id, answer.generation_id, "i")
    assert sorted(old.sync()) == [0, 1, 2, 3]
    again = Member(coordinator, GROUP, "again", "t", instance_id="i").join()
    assert kind(coordinator) == "consumer"
    assert len(settle([again])["again"]) == 4
    assert old.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_can_forbid_upgrades(policy):
    coordinator = Coordinator(group_consumer_migration_policy=policy)
    coordinator.set_topics(t=4)
    (old,) = classic_group(coordinator)
    assert beat(coordinator, GROUP, "new", 0, **JOIN) == ErrorCode.GROUP_ID_NOT_FOUND
    assert old.heartbeat() == ErrorCode.NONE
    coordinator.close()


def test_the_policy_can_forbid_classic_members():
    coordinator = Coordinator(group_consumer_migration_policy="disabled")
    coordinator.set_topics(t=4)
    new = Member(coordinator, GROUP, "new", "t").join()
    answer = coordinator.get(coordinator.join(GROUP, instance_id="i", protocols=RANGE))
    assert answer is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert list(coordinator.group(GROUP).members) == ["new"]
    new.leave()
    coordinator.join(GROUP, instance_id="i", protocols=RANGE)
    coordinator.run(5_000)
    assert kind(coordinator) == "classic", "the group was empty"
    coordinator.close()


def test_unreadable_subscriptions_are_refused(coordinator):
    new = Member(coordinator, GROUP, "new", "t").join()
    unreadable = (("range", b"?"),)
    answer = coordinator.get(coordinator.join(GROUP, instance_id="i", protocols=unreadable))
    assert answer is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not new.beat().error_code


def test_the_policy_can_forbid_downgrades():
    coordinator = Coordinator(group_consumer_migration_policy="UPGRADE")
    coordinator.set_topics(t=4)
    (old,) = classic_group(coordinator)
    new = Member(coordinator, GROUP, "new", "t").join()
    new.leave()
    assert kind(coordinator) == "consumer"
    coordinator.run(2_000)
    assert sorted(old.rejoin(0, 1, 2, 3)) == [0, 1, 2, 3]
    coordinator.close()


def test_groups_with_unreadable_subscriptions_are_not_upgraded(coordinator):
    Generation(coordinator, GROUP, 1, protocols=(("own", b"not read"),), protocol_type="connect")
    assert beat(coordinator, GROUP, "new", 0, **JOIN) == ErrorCode.GROUP_ID_NOT_FOUND
    Generation(coordinator, "other", 1, protocols=(("own", b"?"),))
    assert beat(coordinator, "other", "new", 0, **JOIN) == ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.group("other").type.value == "classic"


def test_empty_groups_are_replaced(coordinator):
    (old,) = classic_group(coordinator)
    coordinator.leave(GROUP, old.member_id)
    new = Member(coordinator, GROUP, "new", "t").join()
    assert kind(coordinator) == "consumer"
    new.leave()
    assert coordinator.get(coordinator.join(GROUP, "unknown")).error_code == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert kind(coordinator) == "consumer"
    coordinator.new_member(GROUP, protocols=RANGE)
    assert kind(coordinator) == "classic"
    coordinator.restart()
    assert kind(coordinator) == "classic"
    assert coordinator.group(GROUP).members == {}


def test_a_conversion_that_cannot_be_written_is_undone(coordinator):
    (old,) = classic_group(coordinator)
    log = coordinator.log(GROUP)
    log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert beat(coordinator, GROUP, "new", 0, **JOIN) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.refusal = None
    assert (kind(coordinator), old.heartbeat()) == ("classic", ErrorCode.NONE)
    new = Member(coordinator, GROUP, "new", "t").join()
    log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert new.leave() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.refusal = None
    assert kind(coordinator) == "consumer"
    assert old.heartbeat() == REBALANCE
    assert new.beat().member_epoch == new.epoch
