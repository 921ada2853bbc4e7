"""JoinGroup and SyncGroup."""

from __future__ import annotations

import pytest
from tests.group.support import Generation, subscription

from odradek.model.errors import ErrorCode


def codes(coordinator, answers):
    return [ErrorCode(coordinator.get(each).error_code) for each in answers]


def test_a_new_member_joins_a_second_time_with_its_member_id(coordinator):
    first = coordinator.get(coordinator.join("g"))
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("client-")
    assert len(first.member_id) == len("client-") + 36
    assert first.protocol_name is None
    answer = coordinator.join("g", first.member_id)
    coordinator.run(2999)
    assert not answer.done(), "a new group waits for others"
    coordinator.run(2)
    joined = answer.result()
    assert (joined.generation_id, joined.leader) == (1, first.member_id)
    assert joined.protocol_type == "consumer"
    assert [each.member_id for each in joined.members] == [first.member_id]


@pytest.mark.parametrize("version", [0, 3])
def test_older_members_join_at_once(coordinator, version):
    answer = coordinator.join("g", version=version)
    coordinator.run(3001)
    assert answer.result().generation_id == 1
    member = coordinator.group("g").members[answer.result().member_id]
    assert member.rebalance_timeout_ms == (30_000 if version else 10_000)


def test_a_protocol_that_a_member_lists_twice_counts_once(coordinator):
    protocols = [("range", subscription("t"))] * 2
    first = coordinator.join("g", version=3, protocols=protocols)
    second = coordinator.join("g", version=3, protocols=protocols[:1])
    coordinator.run(10_000)
    assert [answer.result().protocol_name for answer in (first, second)] == ["range", "range"]


def test_the_initial_delay_is_extended_while_members_join(coordinator):
    first = coordinator.join("g", version=3)
    coordinator.run(2000)
    second = coordinator.join("g", version=3)
    coordinator.run(2000)
    assert not first.done()
    third = coordinator.join("g", version=3)
    coordinator.run(2500)
    assert not first.done()
    coordinator.run(3000)
    answers = [each.result() for each in (first, second, third)]
    assert {each.generation_id for each in answers} == {1}
    leader = next(each for each in answers if each.member_id == each.leader)
    assert len(leader.members) == 3
    assert [len(each.members) for each in answers if each is not leader] == [0, 0]


def test_the_initial_delay_ends_with_the_rebalance_timeout(make):
    coordinator = make(group_initial_rebalance_delay_ms=3000)
    first = coordinator.join("g", version=3, rebalance_timeout_ms=5000)
    for _ in range(6):
        coordinator.run(1000)
        coordinator.join("g", version=3, rebalance_timeout_ms=5000)
    assert first.done()


def test_all_members_receive_the_leaders_assignment(coordinator):
    generation = Generation(coordinator, "g", 3)
    assert generation.assignments == [each.encode() for each in generation.ids]
    assert coordinator.group("g").state_name == "Stable"
    again = coordinator.get(coordinator.sync("g", generation.follower, 1))
    assert again.assignment == generation.follower.encode()
    assert (again.protocol_type, again.protocol_name) == ("consumer", "range")


def test_followers_wait_for_the_leader(coordinator):
    ids = [coordinator.new_member("g") for _ in range(2)]
    joins = [coordinator.join("g", each) for each in ids]
    coordinator.run(10_000)
    leader = joins[0].result().leader
    follower = next(each for each in ids if each != leader)
    waiting = coordinator.sync("g", follower, 1)
    coordinator.run(1000)
    assert not waiting.done()
    assert coordinator.heartbeat("g", follower, 1) is ErrorCode.NONE
    coordinator.get(coordinator.sync("g", leader, 1, {follower: b"part"}))
    assert waiting.result().assignment == b"part"
    assert coordinator.group("g").members[leader].assignment == b"", "it forgot itself"


def test_an_assignment_waits_until_it_is_committed(make):
    coordinator = make(is_replicated=True)
    coordinator.join("g")
    coordinator.run()
    member = coordinator.join("g", version=3)
    coordinator.run(6001)
    member_id = member.result().member_id
    answer = coordinator.sync("g", member_id, 1, {member_id: b"part"})
    coordinator.run(100)
    assert not answer.done()
    assert coordinator.group("g").state_name == "CompletingRebalance"
    coordinator.log("g").commit()
    coordinator.run()
    assert answer.result().assignment == b"part"


def test_an_assignment_that_cannot_be_written_fails_the_generation(coordinator):
    ids = [coordinator.new_member("g") for _ in range(2)]
    joins = [coordinator.join("g", each) for each in ids]
    coordinator.run(10_000)
    leader = joins[0].result().leader
    coordinator.log("g").refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    syncs = [
        coordinator.sync("g", each, 1, {each: b"part"} if each == leader else None)
        for each in sorted(ids, key=lambda each: each == leader)
    ]
    assert codes(coordinator, syncs) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert coordinator.group("g").state_name == "PreparingRebalance"
    coordinator.log("g").refusal = None
    again = [coordinator.join("g", each) for each in ids]
    assert {coordinator.get(each).generation_id for each in again} == {2}


def test_a_member_joins_a_stable_group(coordinator):
    generation = Generation(coordinator, "g", 2)
    newcomer = coordinator.new_member("g")
    assert coordinator.heartbeat("g", generation.leader, 1) is ErrorCode.NONE
    joining = coordinator.join("g", newcomer)
    for each in generation.ids:
        assert coordinator.heartbeat("g", each, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    sync = coordinator.get(coordinator.sync("g", generation.leader, 1))
    assert sync.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not joining.done()
    generation.take([joining, *(coordinator.join("g", each) for each in generation.ids)])
    assert generation.number == 2
    assert len(set(generation.assignments)) == 3


def test_a_member_that_does_not_rejoin_is_removed(coordinator):
    generation = Generation(coordinator, "g", 2)
    staying, lost = generation.leader, generation.follower
    joining = coordinator.join("g", staying)  # the leader joins: it wants to assign anew
    for _ in range(5):
        coordinator.run(5000)
        assert coordinator.heartbeat("g", lost, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert not joining.done()
    coordinator.run(5001)
    assert joining.result().generation_id == 2
    assert coordinator.heartbeat("g", lost, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_rejoin_is_replaced(coordinator):
    generation = Generation(coordinator, "g", 2, rebalance_timeout_ms=8000)
    joining = coordinator.join(
        "g",
        generation.follower,
        protocols=(("range", subscription("another")),),
        rebalance_timeout_ms=8000,
    )
    coordinator.run(8001)
    joined = joining.result()
    assert joined.leader == joined.member_id == generation.follower


def test_a_member_that_sends_no_sync_is_removed(coordinator):
    ids = [coordinator.new_member("g", rebalance_timeout_ms=8000) for _ in range(2)]
    joins = [coordinator.join("g", each, rebalance_timeout_ms=8000) for each in ids]
    coordinator.run(6001)
    leader = joins[0].result().leader
    lost = next(each for each in ids if each != leader)
    coordinator.get(coordinator.sync("g", leader, 1))
    for _ in range(8):
        coordinator.run(1000)
        coordinator.heartbeat("g", leader, 1)
        coordinator.heartbeat("g", lost, 1)
    assert lost not in coordinator.group("g").members
    assert coordinator.heartbeat("g", leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_rejoining_unchanged(coordinator):
    generation = Generation(coordinator, "g", 2)
    same = coordinator.get(coordinator.join("g", generation.follower))
    assert (same.generation_id, same.error_code) == (1, 0)
    assert same.leader == generation.leader
    assert coordinator.group("g").state_name == "Stable"
    changed = coordinator.join(
        "g", generation.follower, protocols=(("range", subscription("other")),)
    )
    coordinator.run()
    assert not changed.done()
    assert coordinator.group("g").state_name == "PreparingRebalance"


def test_rejoining_before_the_assignment(coordinator):
    ids = [coordinator.new_member("g") for _ in range(2)]
    joins = [coordinator.join("g", each) for each in ids]
    coordinator.run(10_000)
    leader = joins[0].result().leader
    again = coordinator.get(coordinator.join("g", leader))
    assert again.generation_id == 1
    assert len(again.members) == 2
    follower = next(each for each in ids if each != leader)
    waiting = coordinator.sync("g", follower, 1)
    coordinator.join("g", leader, protocols=(("range", b"new"),))
    assert coordinator.get(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_abandoned_join_is_answered(coordinator):
    generation = Generation(coordinator, "g", 2)
    first = coordinator.join("g", generation.leader)
    second = coordinator.join("g", generation.leader)
    assert coordinator.get(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.join("g", generation.follower)
    assert coordinator.get(second).generation_id == 2


def test_the_protocol_with_most_votes(coordinator):
    likes = [("a", "b", "c"), ("b", "a"), ("b", "c", "a")]
    ids = [coordinator.new_member("g") for _ in likes]
    joins = [
        coordinator.join("g", each, protocols=tuple((name, name.encode()) for name in names))
        for each, names in zip(ids, likes, strict=True)
    ]
    coordinator.run(10_000)
    answers = [each.result() for each in joins]
    assert {each.protocol_name for each in answers} == {"b"}
    leader = next(each for each in answers if each.members)
    assert {each.metadata for each in leader.members} == {b"b"}


def test_inconsistent_protocols(coordinator):
    Generation(coordinator, "g", 1)
    for options in (
        {"protocols": (("other", b""),)},
        {"protocol_type": "connect"},
        {"protocols": ()},
    ):
        answer = coordinator.get(coordinator.join("g", **options))
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for options in ({"protocols": ()}, {"protocol_type": ""}):
        answer = coordinator.get(coordinator.join("new", **options))
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.group("new").state_name == "Empty"


def test_groups_of_other_protocol_types(coordinator):
    generation = Generation(
        coordinator, "connect", 2, protocol_type="connect", protocols=(("sessioned", b"x"),)
    )
    assert len(set(generation.assignments)) == 2
    assert coordinator.group("connect").subscribed_topics is None


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_invalid_joins(coordinator, options, error):
    assert coordinator.join(**{"group_id": "g", **options}) is error


def test_a_member_id_that_the_coordinator_did_not_generate(coordinator):
    answer = coordinator.get(coordinator.join("g", "made-up"))
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert "g" not in coordinator.machine("g").state.groups
    Generation(coordinator, "g", 1)
    answer = coordinator.get(coordinator.join("g", "made-up"))
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group(make):
    coordinator = make(group_max_size=2)
    generation = Generation(coordinator, "g", 2)
    answer = coordinator.get(coordinator.join("g"))
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    coordinator.join("g", generation.leader)
    coordinator.join("g", generation.follower)
    assert coordinator.group("g").generation_id == 2


def test_a_group_that_is_too_large_after_a_restart(make):
    coordinator = make()
    generation = Generation(coordinator, "g", 3)
    coordinator.settings["group.max.size"] = "2"
    coordinator.restart()
    assert coordinator.group("g").state_name == "PreparingRebalance"
    joins = [coordinator.join("g", each) for each in generation.ids]
    coordinator.run(30_001)
    assert sorted(codes(coordinator, joins)) == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_a_member_id_that_is_not_used_expires(coordinator):
    member_id = coordinator.new_member("g")
    coordinator.run(10_001)
    answer = coordinator.get(coordinator.join("g", member_id))
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_members_with_a_new_id(coordinator):
    generation = Generation(coordinator, "g", 1)
    coordinator.new_member("g")
    joining = coordinator.join("g", generation.leader)
    coordinator.run(5000)
    assert not joining.done()
    coordinator.run(5001)
    assert joining.result().generation_id == 2


def test_a_first_join_has_a_timeout(coordinator):
    generation = Generation(coordinator, "g", 1, rebalance_timeout_ms=1_000_000)
    newcomer = coordinator.join("g", coordinator.new_member("g"), rebalance_timeout_ms=1_000_000)
    for _ in range(61):
        coordinator.run(5000)
        coordinator.heartbeat("g", generation.leader, 1)
    assert newcomer.result().error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "none"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_syncs_that_are_refused(coordinator, options, error):
    generation = Generation(coordinator, "g", 1)
    given = {"group_id": "g", "member_id": generation.leader, "generation": 1, **options}
    assert coordinator.get(coordinator.sync(**given)).error_code == error


def test_a_new_group_that_cannot_be_written_does_not_exist(coordinator):
    coordinator.log("g").refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer = coordinator.join("g", version=3)
    assert coordinator.get(answer).error_code == ErrorCode.NOT_COORDINATOR
    assert "g" not in coordinator.machine("g").state.groups
    coordinator.run(10_000)
