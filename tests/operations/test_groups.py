"""The lag of groups and share groups, and what is not known of them."""

from __future__ import annotations

from odradek.client.admin.groups import Group, Member
from odradek.client.admin.share_groups import ShareGroup, StartOffset
from odradek.client.commits import CommittedOffset
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.groups import GroupFacts
from odradek.operations.queue_metrics import InFlight
from odradek.operations.share_groups import ShareGroupFacts, priorities

KEYS = [TopicPartition("t", index) for index in range(4)]


def group(kind: str, *members: Member) -> Group:
    return Group("g", kind, "Stable", "", 3, members)


def member(name: str, *partitions: TopicPartition) -> Member:
    return Member(name, None, "c", "/10.0.0.1", partitions)


def test_the_lag_of_a_group() -> None:
    committed = {
        KEYS[0]: CommittedOffset(3),
        KEYS[1]: CommittedOffset(9),
        KEYS[2]: CommittedOffset(1),
    }
    facts = GroupFacts(
        group("consumer", member("m", KEYS[0], KEYS[3])), committed, {KEYS[0]: 10, KEYS[1]: 7}
    )
    assert facts.partitions == KEYS
    # The end may be behind what is committed: records were deleted, or the leader has changed.
    assert [facts.lag(key) for key in KEYS] == [7, 0, None, None]
    shown = facts.as_json()
    assert [each["member"] for each in shown["partitions"]] == ["m", None, None, "m"]
    assert shown["members"][0]["host"] == "10.0.0.1"
    assert "tasks" not in shown["members"][0]


def test_the_lag_of_a_share_group() -> None:
    found = ShareGroup(group("share", member("a", KEYS[0]), member("b", KEYS[0], KEYS[1])), ("t",))
    facts = ShareGroupFacts(
        found,
        "urgent:10,bulk:-1",
        tuple(KEYS[:3]),
        starts={KEYS[0]: StartOffset(5, 0, 20), KEYS[1]: StartOffset(-1, 0, -1)},
        ends={KEYS[0]: 25},
        in_flight={KEYS[0]: InFlight(acquired=8), KEYS[1]: InFlight()},
    )
    assert [facts.start(key) for key in KEYS[:3]] == [5, None, None]
    assert [facts.lag(key) for key in KEYS[:3]] == [20, None, None]
    assert [facts.waiting(key) for key in KEYS[:3]] == [12, None, None]
    assert facts.lacks_metrics  # of the third
    shown = facts.as_json()
    assert [each["members"] for each in shown["partitions"]] == [2, 1, 0]
    assert shown["priority"] == {"urgent": 10, "bulk": -1}


def test_more_may_be_acquired_than_the_lag_says() -> None:
    """The coordinator learns the lag later than the leader knows what it has given."""
    found = ShareGroup(group("share"), ("t",))
    starts = {KEYS[0]: StartOffset(5, 0, 3)}
    facts = ShareGroupFacts(
        found, "", (KEYS[0],), starts, in_flight={KEYS[0]: InFlight(acquired=4)}
    )
    assert facts.waiting(KEYS[0]) == 0
    assert not facts.lacks_metrics


def test_priorities() -> None:
    assert priorities("") == {}
    facts = ShareGroupFacts(ShareGroup(group("share"), ()), ClientError("not allowed"))
    assert facts.as_json()["priority"] is None
