"""The checks of what share consumers received and acknowledged."""

from __future__ import annotations

import pytest

from odradek.core.share.states import ACCEPT, RELEASE, RENEW
from odradek.model.topic_partition import TopicPartition
from odradek.sim.facts import Facts, Reading
from odradek.sim.share_facts import DELIVERIES_MAX, LOCK_MS, Delivery, ShareFacts

PARTITION = TopicPartition("events", 0)
LEADER, NEXT_LEADER = object(), object()
MS = 1_000_000


class Group:
    """Two members, one record, and times in milliseconds."""

    def __init__(self) -> None:
        self.facts = Facts(acknowledged={PARTITION: {"value": 0}})
        self.shared = ShareFacts(self.facts)

    def deliver(
        self, member: str, count: int, at: int, leader: object = LEADER, epoch: int | None = 5
    ) -> Delivery:
        """Deliver the record with a request that takes 10 ms."""
        reading = Reading(PARTITION, 0, "value")
        return self.shared.deliver(member, reading, count, at * MS, (at + 10) * MS, leader, epoch)

    def acknowledge(self, delivery: Delivery, kind: int, at: int) -> None:
        """Confirm an acknowledgement whose request takes 10 ms."""
        if kind != RENEW:
            delivery.end()
        self.shared.begin(delivery, kind)
        self.shared.acknowledged(delivery, kind, at * MS, (at + 10) * MS, LEADER, 5)


@pytest.fixture
def group() -> Group:
    return Group()


def test_a_record_that_is_released_and_accepted_is_in_order(group: Group) -> None:
    group.acknowledge(group.deliver("one", 1, 0), RELEASE, 20)
    group.acknowledge(group.deliver("two", 2, 40), ACCEPT, 60)
    assert group.facts.violations == []
    assert list(group.shared.unsettled("events")) == []


def test_two_members_hold_a_lock(group: Group) -> None:
    group.deliver("one", 1, 0)
    group.deliver("two", 2, 20)
    assert [each.rpartition(": ")[2] for each in group.facts.violations] == ["one has the lock"]


@pytest.mark.parametrize(("at", "leader"), [(LOCK_MS, LEADER), (20, NEXT_LEADER), (5, LEADER)])
def test_the_lock_may_have_ended(group: Group, at: int, leader: object) -> None:
    """It has expired, it was lost with its leader, or it is not known which request came first."""
    group.deliver("one", 1, 0)
    group.deliver("two", 2, at, leader)
    assert group.facts.violations == []


def test_a_renewed_lock_is_held_for_longer(group: Group) -> None:
    group.acknowledge(group.deliver("one", 1, 0), RENEW, LOCK_MS // 2)
    group.deliver("two", 2, LOCK_MS)
    assert "one has the lock" in group.facts.violations[0]


def test_the_count_does_not_increase(group: Group) -> None:
    group.deliver("one", 2, 0).end()
    group.deliver("two", 2, 20)
    assert "the delivery count is 2 after 2" in group.facts.violations[0]


@pytest.mark.parametrize("count", [0, DELIVERIES_MAX + 1])
def test_the_count_has_limits(group: Group, count: int) -> None:
    group.deliver("one", count, 0)
    assert f"the delivery count is {count}" in group.facts.violations[0]


def test_an_accepted_record_is_delivered_by_the_next_leader(group: Group) -> None:
    group.acknowledge(group.deliver("one", 1, 0), ACCEPT, 20)
    group.deliver("two", 1, 40, NEXT_LEADER, 6)
    assert "it had been accepted or rejected" in group.facts.violations[0]


def test_an_accepted_record_is_delivered_by_a_broker_that_leads_no_more(group: Group) -> None:
    group.acknowledge(group.deliver("one", 1, 0), ACCEPT, 20)
    group.deliver("two", 1, 40, object(), 4)
    assert group.facts.violations == []


def test_an_expired_lock_is_acknowledged(group: Group) -> None:
    group.acknowledge(group.deliver("one", 1, 0), RENEW, LOCK_MS + 50)
    assert "after its lock has expired" in group.facts.violations[0]


def test_an_acknowledgement_before_the_start_offset_has_no_effect(group: Group) -> None:
    late = group.deliver("one", 1, 0)
    group.acknowledge(group.deliver("two", 2, LOCK_MS + 10), ACCEPT, LOCK_MS + 30)
    group.acknowledge(late, RENEW, LOCK_MS + 50)
    assert group.facts.violations == []


def test_a_renewal_before_the_start_offset_gives_no_lock(group: Group) -> None:
    """The response to the acknowledgement of the other member arrives after the renewal."""
    late = group.deliver("one", 1, 0)
    accepted = group.deliver("two", 2, LOCK_MS + 10)
    accepted.end()
    group.shared.begin(accepted, ACCEPT)
    group.acknowledge(late, RENEW, LOCK_MS + 50)
    sent, now = (LOCK_MS + 30) * MS, (LOCK_MS + 90) * MS
    group.shared.acknowledged(accepted, ACCEPT, sent, now, LEADER, 5)
    assert group.facts.violations == []


def test_a_record_of_another_member_is_acknowledged(group: Group) -> None:
    one = group.deliver("one", 1, 0)
    one.end()
    group.deliver("two", 2, 20)
    group.acknowledge(one, ACCEPT, 40)
    assert "acknowledged while two has the lock" in group.facts.violations[0]


def test_a_record_is_never_settled(group: Group) -> None:
    group.deliver("one", 1, 0)
    assert list(group.shared.unsettled("events")) == [
        "events-0: 'value' was delivered 1 times and never settled"
    ]


def test_a_record_may_be_settled_or_given_up(group: Group) -> None:
    """The response to its acknowledgement was lost, or it was delivered to nobody too often."""
    delivery = group.deliver("one", 1, 0)
    group.shared.begin(delivery, ACCEPT)
    group.shared.unknown(delivery, ACCEPT)
    assert list(group.shared.unsettled("events")) == []
    other = Group()
    for _ in range(DELIVERIES_MAX):
        other.shared.lose_fetch(PARTITION)
    assert list(other.shared.unsettled("events")) == []
