"""Heartbeat and LeaveGroup, expired members, and changes of the coordinator."""

from __future__ import annotations

from tests.group.support import Generation

from odradek.model.errors import ErrorCode


def test_heartbeats_keep_a_member(coordinator):
    generation = Generation(coordinator, "g", 1)
    for _ in range(10):
        coordinator.run(9000)
        assert coordinator.heartbeat("g", generation.leader, 1) is ErrorCode.NONE
    coordinator.run(10_001)
    assert coordinator.heartbeat("g", generation.leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    group = coordinator.group("g")
    assert (group.state_name, group.generation_id, group.members) == ("Empty", 2, {})


def test_commits_keep_a_member(coordinator):
    generation = Generation(coordinator, "g", 1)
    for _ in range(5):
        coordinator.run(9000)
        answer = coordinator.commit(
            "g", {("topic", 0): 5}, member_id=generation.leader, generation=1
        )
        assert set(answer.values()) == {ErrorCode.NONE}
    assert generation.leader in coordinator.group("g").members


def test_the_end_of_a_session_begins_a_rebalance(coordinator):
    generation = Generation(coordinator, "g", 2)
    coordinator.run(9000)
    coordinator.heartbeat("g", generation.leader, 1)
    coordinator.run(1001)
    assert coordinator.heartbeat("g", generation.leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    generation.take([coordinator.join("g", generation.leader)])
    assert generation.number == 2


def test_members_that_wait_need_not_send_heartbeats(coordinator):
    generation = Generation(coordinator, "g", 2)
    joining = coordinator.join("g", generation.leader, session_timeout_ms=6000)
    for _ in range(4):
        coordinator.heartbeat("g", generation.follower, 1)
        coordinator.run(6000)
    assert not joining.done()
    coordinator.join("g", generation.follower)
    assert coordinator.get(joining).generation_id == 2


def test_refused_heartbeats(coordinator):
    generation = Generation(coordinator, "g", 1)
    assert coordinator.heartbeat("g", generation.leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.heartbeat("g", "nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat("none", "nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat("", "nobody", 1) is ErrorCode.INVALID_GROUP_ID
    assert coordinator.heartbeat("g", generation.leader, 1, "x") is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving(coordinator):
    generation = Generation(coordinator, "g", 2)
    assert coordinator.leave("g", generation.follower) == [ErrorCode.NONE]
    assert coordinator.heartbeat("g", generation.leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.leave("g", generation.leader) == [ErrorCode.NONE]
    assert coordinator.group("g").state_name == "Empty"
    assert coordinator.leave("g", generation.leader) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert coordinator.leave("none", "nobody") is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_completes_a_rebalance_that_waits_for_the_member(coordinator):
    generation = Generation(coordinator, "g", 2)
    joining = coordinator.join("g", generation.leader)
    coordinator.leave("g", generation.follower)
    assert coordinator.get(joining).generation_id == 2


def test_leaving_while_joining_answers_the_join(coordinator):
    generation = Generation(coordinator, "g", 2)
    joining = coordinator.join("g", generation.leader)
    coordinator.leave("g", generation.leader)
    assert coordinator.get(joining).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_has_only_its_id_leaves(coordinator):
    generation = Generation(coordinator, "g", 1)
    newcomer = coordinator.new_member("g")
    joining = coordinator.join("g", generation.leader)
    coordinator.run(100)
    assert not joining.done()
    assert coordinator.leave("g", newcomer) == [ErrorCode.NONE]
    assert coordinator.get(joining).generation_id == 2


def test_an_empty_group_begins_again(coordinator):
    generation = Generation(coordinator, "g", 1)
    coordinator.leave("g", generation.leader)
    again = Generation(coordinator, "g", 1)
    assert again.number == 3


def test_another_coordinator_knows_the_members(coordinator):
    generation = Generation(coordinator, "g", 3)
    coordinator.restart()
    group = coordinator.group("g")
    assert (group.state_name, group.generation_id) == ("Stable", 1)
    assert sorted(group.members) == sorted(generation.ids)
    assert {each.assignment for each in group.members.values()} == set(generation.assignments)
    for each in generation.ids:
        assert coordinator.heartbeat("g", each, 1) is ErrorCode.NONE
    coordinator.run(9000)
    coordinator.heartbeat("g", generation.leader, 1)
    coordinator.run(1001)
    assert list(coordinator.group("g").members) == [generation.leader]


def test_waiting_requests_are_answered_when_the_coordinator_changes(coordinator):
    other = [coordinator.new_member("h") for _ in range(2)]
    joins = [coordinator.join("h", each, session_timeout_ms=60_000) for each in other]
    generation = Generation(coordinator, "g", 2)
    follower = next(each for each in other if each != joins[0].result().leader)
    syncing = coordinator.sync("h", follower, 1)
    joining = coordinator.join("g", generation.leader)
    coordinator.run()
    coordinator.groups.shutdown()
    coordinator.run()
    assert joining.result().error_code == ErrorCode.NOT_COORDINATOR
    assert syncing.result().error_code == ErrorCode.NOT_COORDINATOR
    assert coordinator.join("g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.heartbeat("g", "any", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
