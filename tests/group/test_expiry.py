"""Expiration of unused offsets and groups (KIP-211)."""

from __future__ import annotations

import pytest
from tests.group.support import Generation, subscription
from tests.group.test_offsets import end, in_transaction

from odradek.core.group.offsets import deletion
from odradek.model.errors import ErrorCode

MINUTE = 60_000
T0, U0 = ("topic", 0), ("unread", 0)


@pytest.fixture
def coordinator(make):
    """Offsets expire after 10 minutes; looked for every minute."""
    return make(
        offsets_retention_minutes=10,
        offsets_retention_check_interval_ms=MINUTE,
        group_max_session_timeout_ms=100 * MINUTE,
    )


def test_offsets_of_a_simple_group_count_from_their_commit(coordinator):
    coordinator.commit("g", {T0: 1})
    coordinator.run(5 * MINUTE)
    coordinator.commit("g", {U0: 1})
    coordinator.run(6 * MINUTE)
    assert coordinator.committed("g") == {U0: 1}
    assert "g" in coordinator.machine("g").state.groups
    coordinator.run(5 * MINUTE)
    assert "g" not in coordinator.machine("g").state.groups
    coordinator.restart()
    assert coordinator.machine("g").state.groups == {}
    assert coordinator.machine("g").offsets.committed == {}


def test_offsets_of_a_group_without_members_count_from_its_end(coordinator):
    generation = Generation(coordinator, "g", 1, session_timeout_ms=100 * MINUTE)
    coordinator.commit("g", {T0: 1}, member_id=generation.leader, generation=1)
    coordinator.run(30 * MINUTE)
    assert coordinator.committed("g") == {T0: 1}, "it has members"
    coordinator.leave("g", generation.leader)
    coordinator.run(9 * MINUTE)
    assert coordinator.committed("g") == {T0: 1}
    coordinator.restart()
    coordinator.run(3 * MINUTE)
    assert coordinator.committed("g") == {}
    assert coordinator.machine("g").state.groups == {}


def test_offsets_of_topics_that_are_no_longer_read(coordinator):
    generation = Generation(coordinator, "g", 1, session_timeout_ms=100 * MINUTE)
    known = {"member_id": generation.leader, "generation": 1}
    coordinator.commit("g", {T0: 1, U0: 1}, **known)
    coordinator.run(12 * MINUTE)
    assert coordinator.committed("g") == {T0: 1}
    assert coordinator.heartbeat("g", generation.leader, 1) is ErrorCode.NONE


def test_groups_without_readable_subscriptions_keep_all_offsets(coordinator):
    for group_id, options in {
        "connect": {"protocol_type": "connect", "protocols": (("x", b""),)},
        "unreadable": {"protocols": (("range", b"?"),)},
    }.items():
        generation = Generation(
            coordinator, group_id, 1, session_timeout_ms=100 * MINUTE, **options
        )
        known = {"member_id": generation.leader, "generation": 1}
        coordinator.commit(group_id, {T0: 1}, **known)
    coordinator.run(30 * MINUTE)
    assert coordinator.committed("connect") == {T0: 1}
    assert coordinator.committed("unreadable") == {T0: 1}


def test_a_retention_beyond_the_latest_timestamp(coordinator):
    coordinator.commit("g", {T0: 1}, retention_ms=2**63 - 1, version=2)
    coordinator.run(20 * MINUTE)
    assert coordinator.committed("g") == {T0: 1}


def test_a_retention_in_the_commit(coordinator):
    coordinator.commit("g", {T0: 1}, retention_ms=2 * MINUTE, version=2)
    coordinator.commit("g", {U0: 1}, retention_ms=20 * MINUTE, version=2)
    coordinator.run(4 * MINUTE)
    assert coordinator.committed("g") == {U0: 1}
    coordinator.restart()
    coordinator.run(10 * MINUTE)
    assert coordinator.committed("g") == {U0: 1}
    coordinator.run(10 * MINUTE)
    assert coordinator.committed("g") == {}


def test_open_transactions_keep_a_group(coordinator):
    coordinator.commit("g", {T0: 1})
    in_transaction(coordinator, 7, {T0: 5})
    coordinator.run(30 * MINUTE)
    assert coordinator.committed("g") == {T0: 1}
    end(coordinator, 7, False)
    coordinator.run(2 * MINUTE)
    assert coordinator.committed("g") == {}


def test_an_empty_group_without_offsets_is_removed_at_once(coordinator):
    generation = Generation(coordinator, "g", 1)
    coordinator.leave("g", generation.leader)
    coordinator.run(2 * MINUTE)
    assert "g" not in coordinator.machine("g").state.groups


def test_expiry_handles_many_groups_in_several_steps(coordinator, monkeypatch):
    monkeypatch.setattr(deletion, "SLICE_OFFSETS", 10)
    for n in range(200):
        coordinator.commit(f"g{n}", {T0: 1, U0: 1})
    coordinator.run(12 * MINUTE)
    assert [len(each.state.groups) for each in coordinator.groups.runtime.machines()] == [0] * 4


def test_expiry_goes_on_after_a_failure(coordinator):
    coordinator.commit("g", {T0: 1})
    coordinator.run(9 * MINUTE)
    coordinator.log("g").refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.run(5 * MINUTE)
    assert coordinator.committed("g") == {T0: 1}
    coordinator.log("g").refusal = None
    coordinator.run(2 * MINUTE)
    assert coordinator.committed("g") == {}


def test_subscriptions_are_known_after_a_restart(coordinator):
    protocols = (("range", subscription("topic", "more")),)
    Generation(coordinator, "g", 2, protocols=protocols)
    coordinator.restart()
    assert coordinator.group("g").subscribed_topics == {"topic", "more"}
