"""Static members (KIP-345): they rejoin under their instance id."""

from __future__ import annotations

import pytest
from tests.group.support import Generation, subscription

from odradek.model.errors import ErrorCode


class Static(Generation):
    """Members with instance ids `a`, `b`, ..."""

    def __init__(self, coordinator, group_id, count=2, **options):
        self.coordinator = coordinator
        self.group_id = group_id
        joins = [
            coordinator.join(group_id, instance_id="abcdef"[n], **options) for n in range(count)
        ]
        coordinator.run(10_000)
        self.take(joins)

    def instance(self, member_id):
        return "abcdef"[self.ids.index(member_id)]


def test_a_static_member_joins_at_once(coordinator):
    generation = Static(coordinator, "g", 2)
    assert [each[:2] for each in generation.ids] == ["a-", "b-"]
    assert coordinator.group("g").static_members == dict(zip("ab", generation.ids, strict=True))


@pytest.mark.parametrize("version", [8, 9])
def test_it_returns_without_a_rebalance(coordinator, version):
    generation = Static(coordinator, "g", 2)
    old = generation.follower
    instance = generation.instance(old)
    answer = coordinator.get(coordinator.join("g", instance_id=instance, version=version))
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert answer.member_id != old
    assert answer.leader == generation.leader
    assert not answer.skip_assignment
    assert coordinator.group("g").state_name == "Stable"
    sync = coordinator.get(coordinator.sync("g", answer.member_id, 1))
    assert sync.assignment == old.encode()
    assert coordinator.heartbeat("g", old, 1, instance) is ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.heartbeat("g", old, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.restart()
    assert answer.member_id in coordinator.group("g").members


def test_a_leader_returns(coordinator):
    generation = Static(coordinator, "g", 2)
    instance = generation.instance(generation.leader)
    answer = coordinator.get(coordinator.join("g", instance_id=instance))
    assert answer.leader == answer.member_id
    assert answer.skip_assignment, "it has nothing to assign (KIP-814)"
    assert len(answer.members) == 2
    again = coordinator.get(coordinator.join("g", instance_id=instance, version=8))
    assert again.leader == answer.member_id, "older members must not think that they lead"
    assert again.members == []
    assert coordinator.group("g").leader_id == again.member_id


def test_waiting_requests_of_the_old_member_id_are_fenced(coordinator):
    generation = Static(coordinator, "g", 2)
    waiting = coordinator.join(
        "g",
        generation.leader,
        instance_id=generation.instance(generation.leader),
        protocols=(("range", b"other"),),
    )
    coordinator.join("g", instance_id=generation.instance(generation.leader))
    fenced = coordinator.get(waiting)
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert fenced.member_id == generation.leader


def test_returning_during_a_sync_begins_a_rebalance(coordinator):
    joins = [coordinator.join("g", instance_id=each) for each in "ab"]
    coordinator.run(10_000)
    waiting = coordinator.sync("g", joins[1].result().member_id, 1)
    coordinator.join("g", instance_id="b")
    assert coordinator.get(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.group("g").state_name == "PreparingRebalance"


def test_returning_with_another_protocol(coordinator):
    both = (("range", subscription("topic")), ("sticky", subscription("topic")))
    generation = Static(coordinator, "g", 1, protocols=both)
    answer = coordinator.join("g", instance_id="a", protocols=both[1:])
    joined = coordinator.get(answer)
    assert (joined.generation_id, joined.protocol_name) == (2, "sticky")
    assert joined.member_id != generation.leader


def test_it_stays_a_member_until_its_session_ends(coordinator):
    generation = Static(coordinator, "g", 2, session_timeout_ms=60_000)
    gone = generation.follower
    joining = coordinator.join(
        "g",
        generation.leader,
        instance_id=generation.instance(generation.leader),
        session_timeout_ms=60_000,
    )
    coordinator.run(30_001)
    assert joining.result().generation_id == 2
    assert gone in coordinator.group("g").members
    coordinator.run(30_001)
    assert gone not in coordinator.group("g").members


def test_an_administrator_removes_it_by_instance_id(coordinator):
    generation = Static(coordinator, "g", 2)
    assert coordinator.leave("g", ("", "a"), ("", "x"), ("nobody", "b")) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert generation.ids[0] not in coordinator.group("g").members
    assert coordinator.group("g").static_members == {"b": generation.ids[1]}


def test_a_member_id_with_the_wrong_instance(coordinator):
    generation = Static(coordinator, "g", 2)
    first, second = generation.ids
    answer = coordinator.get(coordinator.join("g", first, instance_id="b"))
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    answer = coordinator.get(coordinator.join("g", second, instance_id="x"))
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        coordinator.commit("g", {("topic", 0): 1}, member_id=first, generation=1, instance_id="b")
        is ErrorCode.FENCED_INSTANCE_ID
    )


def test_a_replacement_that_cannot_be_written_is_undone(coordinator):
    generation = Static(coordinator, "g", 2)
    coordinator.log("g").refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = coordinator.get(coordinator.join("g", instance_id="a", session_timeout_ms=7000))
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    group = coordinator.group("g")
    assert group.static_members["a"] == generation.ids[0]
    assert group.members[generation.ids[0]].session_timeout_ms == 10_000
    assert group.leader_id == generation.leader
    assert coordinator.heartbeat("g", generation.ids[0], 1, "a") is ErrorCode.NONE


def test_an_id_that_was_given_to_a_dynamic_member(coordinator):
    member_id = coordinator.new_member("g")
    assert coordinator.join("g", member_id, instance_id="a") is ErrorCode.UNKNOWN_SERVER_ERROR
