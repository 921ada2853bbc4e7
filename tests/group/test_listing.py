"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from tests.group.support import Generation, subscription

from odradek.core.group.group import GroupType
from odradek.model.errors import ErrorCode

T0 = ("topic", 0)


def listed(coordinator, states=(), types=()):
    groups = coordinator.get(coordinator.groups.list_groups(states, types))
    if isinstance(groups, ErrorCode):
        return groups
    return {each.group_id: each for each in groups}


def described(coordinator, *group_ids, version=6):
    return coordinator.get(
        coordinator.groups.describe_groups(coordinator.context(version), group_ids)
    )


def deleted(coordinator, *group_ids):
    results = coordinator.get(coordinator.groups.delete_groups(group_ids))
    return {each.group_id: ErrorCode(each.error_code) for each in results}


def test_listing(coordinator):
    Generation(coordinator, "stable", 1, session_timeout_ms=60_000)
    Generation(coordinator, "connect", 1, protocol_type="connect", protocols=(("x", b""),))
    coordinator.commit("simple", {T0: 1})
    coordinator.join("joining", version=3)
    coordinator.run()
    groups = listed(coordinator)
    shown = {
        name: (each.protocol_type, each.group_state, each.group_type)
        for name, each in groups.items()
    }
    assert shown == {
        "stable": ("consumer", "Stable", "classic"),
        "connect": ("connect", "Stable", "classic"),
        "simple": ("", "Empty", "classic"),
        "joining": ("consumer", "PreparingRebalance", "classic"),
    }
    assert set(listed(coordinator, ["EMPTY ", "preparingrebalance"])) == {"simple", "joining"}
    assert set(listed(coordinator, [], ["Classic"])) == set(shown)
    assert listed(coordinator, [], ["consumer"]) == {}
    assert listed(coordinator, ["nonsense"]) == {}


def test_describing(coordinator):
    generation = Generation(coordinator, "g", 2)
    group, missing = described(coordinator, "g", "none")
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert sorted(each.member_id for each in group.members) == sorted(generation.ids)
    member = group.members[0]
    assert (member.client_id, member.client_host) == ("client", "/10.0.0.1")
    assert member.member_metadata == subscription("topic")
    assert member.member_assignment == member.member_id.encode()
    assert (missing.group_state, missing.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert missing.error_message == "Group none not found."
    (missing,) = described(coordinator, "none", version=5)
    assert (missing.group_state, missing.error_code) == ("Dead", 0)


def test_describing_a_rebalance(coordinator):
    generation = Generation(coordinator, "g", 2)
    coordinator.join("g", generation.leader)
    (group,) = described(coordinator, "g")
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert {each.member_metadata for each in group.members} == {b""}


def test_deleting(coordinator):
    generation = Generation(coordinator, "g", 1)
    coordinator.commit("g", {T0: 1}, member_id=generation.leader, generation=1)
    coordinator.commit("simple", {T0: 1})
    assert deleted(coordinator, "g", "simple", "none") == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    coordinator.leave("g", generation.leader)
    assert deleted(coordinator, "g") == {"g": ErrorCode.NONE}
    assert listed(coordinator) == {}
    assert coordinator.committed("g") == {}
    coordinator.restart()
    assert listed(coordinator) == {}
    again = Generation(coordinator, "g", 1)
    assert again.number == 1


def test_a_deletion_that_cannot_be_written(coordinator):
    coordinator.commit("g", {T0: 1})
    coordinator.log("g").refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert deleted(coordinator, "g") == {"g": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert set(listed(coordinator)) == {"g"}
    assert coordinator.committed("g") == {T0: 1}


def test_requests_while_groups_are_loaded(coordinator):
    coordinator.commit("g", {T0: 1})
    partition = coordinator.groups.partition_for("g")
    coordinator.groups.on_resignation(partition, 2)
    assert listed(coordinator) == {}
    (group,) = described(coordinator, "g")
    assert group.error_code == ErrorCode.NOT_COORDINATOR
    assert deleted(coordinator, "g") == {"g": ErrorCode.NOT_COORDINATOR}
    coordinator.groups.on_election(partition, 3)
    assert listed(coordinator) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.run(100)
    assert set(listed(coordinator)) == {"g"}


def test_the_values_of_metrics(coordinator):
    Generation(coordinator, "g", 1)
    coordinator.commit("simple", {T0: 5})
    counts = coordinator.groups.count_by_state()
    assert [counts[GroupType.CLASSIC, each] for each in ("Stable", "Empty", "Dead")] == [1, 1, 0]
    assert list(coordinator.groups.committed_offsets()) == [("simple", "topic", 0, 5)]
