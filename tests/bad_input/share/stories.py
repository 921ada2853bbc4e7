"""Sequences of requests of the share APIs that end with invalid ones.

Each story has its own group. It begins at offset 0 of both partitions of the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.bad_input.coordinators.fields import NOBODY_UUID, Values
from tests.bad_input.coordinators.requests import TOPIC, Actor, Broker, Outcome
from tests.bad_input.share.requests import RECORDS, ShareActor

GROUP_RESOURCE = 32
MEMBERS_MAX = 10
"""The setting `group.share.max.size`."""
LOAD_WAIT_MS = 3_000
"""How long a fetch may wait whose share partition may fail to load."""
LONG_ID = "m" * 37
INT64_MAX = 2**63 - 1
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0

Batch = tuple[int, int, Sequence[int]]
"""First offset, last offset, types of acknowledgements."""

BATCHES: dict[str, list[Batch]] = {
    "inverted": [(3, 1, [ACCEPT])],
    "overlapping": [(0, 2, [ACCEPT]), (2, 3, [ACCEPT])],
    "nested": [(0, 5, [ACCEPT]), (1, 2, [ACCEPT])],
    "the same twice": [(0, 0, [ACCEPT]), (0, 0, [ACCEPT])],
    "out of order": [(3, 3, [ACCEPT]), (1, 1, [ACCEPT])],
    "first offset -1": [(-1, 0, [ACCEPT])],
    "both offsets -1": [(-1, -1, [ACCEPT])],
    "both offsets -5": [(-5, -5, [ACCEPT])],
    "first offset lowest": [(-INT64_MAX - 1, 0, [ACCEPT])],
    "last offset highest": [(0, INT64_MAX, [ACCEPT])],
    "both offsets highest": [(INT64_MAX, INT64_MAX, [ACCEPT])],
    "every offset": [(-INT64_MAX - 1, INT64_MAX, [ACCEPT])],
    "no types": [(0, 0, [])],
    "two types of three offsets": [(0, 2, [ACCEPT, ACCEPT])],
    "three types of two offsets": [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
    "two types of one offset": [(0, 0, [ACCEPT, ACCEPT])],
    "100 000 types": [(0, 99_999, [ACCEPT] * 100_000)],
    "100 000 types of two offsets": [(0, 1, [ACCEPT] * 100_000)],
    "10 000 batches": [(0, 0, [ACCEPT])] * 10_000,
    "type 5": [(0, 0, [5])],
    "type -1": [(0, 0, [-1])],
    "type 127": [(0, 0, [127])],
    "type 5 after a valid one": [(0, 1, [ACCEPT, 5])],
    "renewal without its flag": [(0, 0, [RENEW])],
    "renewal after another type": [(0, 1, [ACCEPT, RENEW])],
    "never fetched": [(RECORDS + 1, RECORDS + 2, [ACCEPT])],
    "never written": [(100, 200, [ACCEPT])],
    "beyond the acquired offsets": [(4, 8, [ACCEPT])],
    "valid, then never fetched": [(4, 4, [ACCEPT]), (100, 100, [ACCEPT])],
    "valid, then inverted": [(4, 4, [ACCEPT]), (6, 5, [ACCEPT])],
}
"""Invalid acknowledgements of a member that has acquired all records of partition 0."""


class Story:
    """The requests of one group, and their outcomes."""

    def __init__(self, broker: Broker, name: str, topic_id: bytes) -> None:
        self.broker = broker
        self.name = name
        self.topic_id = topic_id
        self.outcomes: list[Outcome] = []

    def member(self, member_id: str, group: str | None = None) -> ShareActor:
        """Return a member that has sent nothing yet."""
        actor = ShareActor(self.broker.ask, group or self.name, self.topic_id)
        actor.member_id = member_id
        return actor

    def case(self, case: str, member: ShareActor, api: str, version: int, **fields: Any) -> Values:
        """Send a valid request except for some fields; note the outcome, and return it."""
        values = {**member.values(api), **fields}
        answer = self.broker.attempt(member, api, version, values)
        request = f"{api} {version}, {self.name}"
        self.outcomes.append(Outcome(request, case, answer, None, None))
        result: Values = answer if isinstance(answer, dict) else {}
        if result.get("error_code") == "NONE" and values.get("share_session_epoch", -1) >= 0:
            member.session_epoch = values["share_session_epoch"] + 1
        return result

    def fetch(
        self, case: str, member: ShareActor, *batches: Batch, partition: int = 0, **fields: Any
    ) -> Values:
        """Send a ShareFetch of a partition with acknowledgements."""
        topics = _topics(self.topic_id, partition, batches)
        values = {"topics": topics, "forgotten_topics_data": [], **fields}
        return self.case(case, member, "ShareFetch", 2, **values)

    def acknowledge(
        self,
        case: str,
        member: ShareActor,
        *batches: Batch,
        partition: int = 0,
        version: int = 2,
        **fields: Any,
    ) -> Values:
        """Send a ShareAcknowledge."""
        values = {"topics": _topics(self.topic_id, partition, batches), **fields}
        return self.case(case, member, "ShareAcknowledge", version, **values)


def _topics(topic_id: bytes, partition: int, batches: Sequence[Batch]) -> list[Values]:
    acknowledged = [
        {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
        for first, last, types in batches
    ]
    one = {"partition_index": partition, "acknowledgement_batches": acknowledged}
    return [{"topic_id": topic_id, "partitions": [one]}]


def foreign_acquisitions(story: Story) -> None:
    """A member acknowledges records that another member has acquired."""
    one, two = story.member("one"), story.member("two")
    one.set_offsets()
    one.fetch_all(0, RECORDS)
    story.fetch("nothing is left", two)
    for kind in (ACCEPT, RELEASE, REJECT, GAP):
        story.acknowledge(f"type {kind}", two, (0, 1, [kind]))
    story.acknowledge("renewed", two, (0, 1, [RENEW]), is_renew_ack=True)
    story.acknowledge("each with its type", two, (0, 2, [ACCEPT, RELEASE, REJECT]))
    story.acknowledge("all", two, (0, RECORDS - 1, [ACCEPT]))
    story.fetch("fetch accepts", two, (0, 1, [ACCEPT]))
    story.acknowledge("released by their owner", one, (0, 1, [RELEASE]))
    two.fetch_all(0, 2)
    story.acknowledge("earlier owner accepts", one, (0, 1, [ACCEPT]))
    story.acknowledge("earlier owner releases", one, (1, 1, [RELEASE]))
    story.acknowledge("own and foreign", two, (0, 2, [ACCEPT]))
    story.acknowledge("own, then foreign", two, (0, 1, [ACCEPT]), (2, 2, [ACCEPT]))
    story.acknowledge("own", two, (0, 1, [ACCEPT]))
    story.acknowledge("own again", two, (0, 1, [ACCEPT]))
    story.acknowledge("another's, accepted", one, (0, 1, [ACCEPT]))


def expired_locks(story: Story) -> None:
    """A member acknowledges records after its lock has ended."""
    one, two = story.member("one"), story.member("two")
    setting = {"name": "share.record.lock.duration.ms", "config_operation": 0, "value": "1000"}
    resource = {
        "resource_type": GROUP_RESOURCE, "resource_name": story.name, "configs": [setting],
    }  # fmt: skip
    changed = story.broker.ask(
        "IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False}
    )
    assert not changed.responses[0].error_code, changed
    one.set_offsets()
    one.fetch_all(0, RECORDS)
    two.fetch_all(0, RECORDS)
    for kind in (ACCEPT, RELEASE, REJECT):
        story.acknowledge(f"type {kind}", one, (0, 1, [kind]))
    story.acknowledge("renewed", one, (2, 3, [RENEW]), is_renew_ack=True)
    story.fetch("fetch accepts", one, (0, 1, [ACCEPT]), share_session_epoch=-1)


def epochs_of_sessions(story: Story) -> None:
    """Epochs of unknown, new and closed sessions."""
    one, two = story.member("one"), story.member("two")
    one.set_offsets()
    for epoch in (1, 7, -1, -2, 2**31 - 1):
        story.fetch(f"no session, epoch {epoch}", one, share_session_epoch=epoch)
        batch = (0, 0, [ACCEPT])
        story.acknowledge(f"no session, epoch {epoch}", one, batch, share_session_epoch=epoch)
    batch = (0, 0, [ACCEPT])
    story.acknowledge("no session, epoch 0", one, batch, share_session_epoch=0)
    story.fetch("no session, epoch 0 with acknowledgements", one, batch)
    story.case("epoch 0 without partitions", two, "ShareFetch", 2, topics=[],
               forgotten_topics_data=[])  # fmt: skip
    story.acknowledge("session without partitions", two, batch)
    one.session_epoch = 0
    one.fetch_all(0, RECORDS)
    current = one.session_epoch
    for epoch in (current - 1, current + 1, -2, 2**31 - 1):
        story.fetch(f"current {epoch - current:+}", one, share_session_epoch=epoch)
        story.acknowledge(f"current {epoch - current:+}", one, batch, share_session_epoch=epoch)
    story.acknowledge("epoch 0", one, batch, share_session_epoch=0)
    story.fetch("epoch 0 again, with acknowledgements", one, batch, share_session_epoch=0)
    one.session_epoch = current
    story.acknowledge("still current", one, (0, 0, [ACCEPT]))
    story.fetch("epoch 0 again", one, share_session_epoch=0)
    story.fetch("epoch 0 for the third time", one, share_session_epoch=0)
    story.fetch("epoch before epoch 0 again", one, share_session_epoch=current)
    one.session_epoch = 1
    story.acknowledge("acquired in an earlier session", one, (1, 1, [ACCEPT]))
    unknown = [{"topic_id": story.topic_id, "partitions": [1, 5, -1]},
               {"topic_id": NOBODY_UUID, "partitions": [0]}]  # fmt: skip
    story.case("forgets what it has not", one, "ShareFetch", 2, topics=[],
               forgotten_topics_data=unknown)  # fmt: skip
    story.fetch("closed with an invalid acknowledgement", one, (9, 8, [ACCEPT]),
                share_session_epoch=-1)  # fmt: skip
    story.fetch("closed twice", one, share_session_epoch=-1)
    story.acknowledge("closed twice", one, batch, share_session_epoch=-1)
    story.fetch("another member's session", story.member("three"), share_session_epoch=1)


def members_of_sessions(story: Story) -> None:
    """Invalid ids of members and groups."""
    one = story.member("one")
    one.set_offsets()
    for case, member_id in (("no", None), ("empty", ""), ("37 characters", LONG_ID)):
        story.fetch(f"{case} member id", one, member_id=member_id, share_session_epoch=0)
        story.acknowledge(f"{case} member id", one, member_id=member_id, share_session_epoch=1)
    for case, group_id in (("no", None), ("empty", "")):
        story.fetch(f"{case} group id", one, group_id=group_id, share_session_epoch=0,
                    max_wait_ms=LOAD_WAIT_MS)  # fmt: skip
        story.acknowledge(f"{case} group id", one, group_id=group_id, share_session_epoch=1)


def batches_of_acknowledgements(story: Story) -> None:
    """Invalid batches in ShareAcknowledge."""
    one = story.member("one")
    one.set_offsets()
    one.fetch_all(0, RECORDS)
    for case, batches in BATCHES.items():
        story.acknowledge(case, one, *batches)
    story.acknowledge("renewal", one, (0, 0, [RENEW]), version=1)
    story.acknowledge("renewal with its flag", one, (0, 0, [RENEW]), is_renew_ack=True)
    story.acknowledge("renewals and others", one, (0, 2, [RENEW, 5, RENEW]), is_renew_ack=True)
    story.acknowledge("accepted with a renewal", one, (0, 1, [RENEW, ACCEPT]), is_renew_ack=True)
    story.acknowledge("nothing acknowledged", one)
    story.acknowledge("renewal of an accepted one", one, (1, 1, [RENEW]), is_renew_ack=True)
    story.acknowledge("a gap that is none", one, (0, 0, [GAP]))
    story.acknowledge("after the gap", one, (0, 0, [ACCEPT]))
    story.acknowledge("before the start offset", one, (0, 1, [RELEASE]))
    story.acknowledge("from before the start offset on", one, (0, 3, [ACCEPT]))
    story.acknowledge("again", one, (2, 3, [RELEASE]))
    story.acknowledge("a partition that is not fetched", one, (0, 0, [ACCEPT]), partition=1)
    story.acknowledge("a partition that does not exist", one, (0, 0, [ACCEPT]), partition=2)
    one.topic_id = NOBODY_UUID
    unknown = _topics(NOBODY_UUID, 0, [(0, 0, [ACCEPT])])
    story.acknowledge("a topic that does not exist", one, topics=unknown)
    unknown = _topics(NOBODY_UUID, 0, [(1, 0, [9])])
    story.acknowledge("an invalid batch of such a topic", one, topics=unknown)


def batches_of_fetches(story: Story) -> None:
    """Invalid batches in ShareFetch."""
    one = story.member("one")
    one.set_offsets()
    one.fetch_all(0, RECORDS)
    for case, batches in BATCHES.items():
        story.fetch(case, one, *batches)
    none = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    story.fetch("renewal that fetches", one, (0, 0, [RENEW]), is_renew_ack=True)
    for name in none:
        fields = {**none, name: 1, "is_renew_ack": True}
        story.fetch(f"renewal with {name}", one, (0, 0, [RENEW]), **fields)
    story.fetch("renewal", one, (0, 0, [RENEW]), is_renew_ack=True, **none)
    story.fetch("renewal that renews nothing", one, is_renew_ack=True, **none)
    story.fetch("accepted", one, (0, 0, [ACCEPT]))
    story.fetch("accepted again", one, (0, 0, [ACCEPT]))


def _on_group(story: Story, one: ShareActor) -> None:
    """Send each request of share groups to a group."""
    story.case("joins", one, "ShareGroupHeartbeat", 1, member_epoch=0)
    story.case("heartbeat", one, "ShareGroupHeartbeat", 1, member_epoch=3)
    story.case("leaves", one, "ShareGroupHeartbeat", 1, member_epoch=-1)
    story.case("described", one, "ShareGroupDescribe", 1)
    story.fetch("fetch", one, max_wait_ms=LOAD_WAIT_MS)
    story.case("offsets", one, "DescribeShareGroupOffsets", 1)
    every = [{"group_id": one.name, "topics": None}]
    story.case("all offsets", one, "DescribeShareGroupOffsets", 1, groups=every)
    story.case("offsets deleted", one, "DeleteShareGroupOffsets", 0)
    story.case("offsets altered", one, "AlterShareGroupOffsets", 0)
    story.case("state", one, "ReadShareGroupStateSummary", 1)


def classic_group(story: Story) -> None:
    """A group of another kind."""
    Actor(story.broker.ask, story.name, story.topic_id).join_classic()
    _on_group(story, story.member("one"))


def consumer_group(story: Story) -> None:
    """A group of another kind."""
    Actor(story.broker.ask, story.name, story.topic_id).join_consumer()
    _on_group(story, story.member("one"))


def unknown_group(story: Story) -> None:
    """A group that does not exist, and then is empty."""
    one = story.member("one")
    story.case("heartbeat", one, "ShareGroupHeartbeat", 1, member_epoch=3)
    story.case("leaves", one, "ShareGroupHeartbeat", 1, member_epoch=-1)
    story.case("described", one, "ShareGroupDescribe", 1)
    story.fetch("fetch", one, max_wait_ms=LOAD_WAIT_MS)
    every = [{"group_id": one.name, "topics": None}]
    story.case("all offsets", one, "DescribeShareGroupOffsets", 1, groups=every)
    story.case("offsets deleted", one, "DeleteShareGroupOffsets", 0)
    one.set_offsets()
    story.case("empty: heartbeat", one, "ShareGroupHeartbeat", 1, member_epoch=3)
    story.case("empty: leaves", one, "ShareGroupHeartbeat", 1, member_epoch=-1)
    story.case("empty: offsets deleted", one, "DeleteShareGroupOffsets", 0)
    story.case("offsets deleted twice", one, "DeleteShareGroupOffsets", 0)


def offsets_altered(story: Story) -> None:
    """Topics and partitions that are listed twice, and offsets that the log does not have."""
    one = story.member("one")
    every = [{"group_id": one.name, "topics": None}]

    def alter(case: str, *changes: tuple[int, int]) -> None:
        topics = [
            {"topic_name": TOPIC, "partitions": [{"partition_index": index, "start_offset": to}]}
            for index, to in changes
        ]
        story.case(case, one, "AlterShareGroupOffsets", 0, topics=topics)
        story.case(f"after {case}", one, "DescribeShareGroupOffsets", 1, groups=every)

    alter("both partitions of a topic that is listed twice", (0, 2), (1, 1))
    alter("a partition twice", (0, 3), (0, 4))
    alter("no offset", (0, -1))
    alter("an offset beyond the end", (0, 100))
    alter("one partition that does not exist", (0, 1), (9, 1))


def members(story: Story) -> None:
    """Epochs and ids of members in heartbeats."""
    one = story.member("one")
    one.join_share()
    for epoch in (0, one.epoch - 1, one.epoch + 1, -1, -2):
        other = f"unknown member, epoch {epoch - one.epoch:+} from the other"
        story.case(other, story.member("two"), "ShareGroupHeartbeat", 1, member_epoch=epoch)
    story.case("member two leaves", story.member("two"), "ShareGroupHeartbeat", 1, member_epoch=-1)
    story.case("joins again", one, "ShareGroupHeartbeat", 1, member_epoch=0)
    story.case("without topics", one, "ShareGroupHeartbeat", 1, member_epoch=0,
               subscribed_topic_names=None)  # fmt: skip
    for case, topics in (("null", None), ("no", []), ("unknown", ["nowhere"]), ("bad", ["/"])):
        story.case(f"joins with {case} topics", story.member(case), "ShareGroupHeartbeat", 1,
                   member_epoch=0, subscribed_topic_names=topics)  # fmt: skip
    for case, member_id in (("empty", ""), ("36 characters", LONG_ID[1:]), ("37", LONG_ID)):
        story.case(f"{case} member id", story.member(member_id), "ShareGroupHeartbeat", 1,
                   member_epoch=0)  # fmt: skip
    for case, rack in (("null", None), ("empty", ""), ("blank", " ")):
        story.case(f"{case} rack", one, "ShareGroupHeartbeat", 1, member_epoch=0, rack_id=rack)
    story.case("not empty", one, "AlterShareGroupOffsets", 0)
    story.case("not empty", one, "DeleteShareGroupOffsets", 0)


def a_full_group(story: Story) -> None:
    """One member too many."""
    for number in range(MEMBERS_MAX):
        joining = story.member(f"member-{number}")
        answer = story.broker.ask("ShareGroupHeartbeat", 1, joining.values("ShareGroupHeartbeat"))
        assert not answer.error_code, answer
    story.case("one member too many", story.member("last"), "ShareGroupHeartbeat", 1)


def epochs_of_state(story: Story) -> None:
    """Epochs of the state of share partitions, and states that do not exist."""
    one = story.member("one")
    partition = {"partition": 0}

    def case(name: str, api: str, version: int, **fields: Any) -> None:
        topics = [{"topic_id": story.topic_id, "partitions": [{**partition, **fields}]}]
        story.case(name, one, api, version, topics=topics)

    def write(name: str, state_epoch: int, leader_epoch: int, start_offset: int = 1) -> None:
        fields: Values = {
            "state_epoch": state_epoch, "leader_epoch": leader_epoch,
            "start_offset": start_offset, "delivery_complete_count": 0, "state_batches": [],
        }  # fmt: skip
        case(name, "WriteShareGroupState", 1, **fields)

    case("unknown", "ReadShareGroupState", 0, leader_epoch=0)
    write("unknown", 0, 0)
    case("unknown", "ReadShareGroupStateSummary", 1, leader_epoch=0)
    case("unknown", "DeleteShareGroupState", 0)
    case("state epoch 3", "InitializeShareGroupState", 0, state_epoch=3, start_offset=0)
    case("state epoch 2", "InitializeShareGroupState", 0, state_epoch=2, start_offset=0)
    case("state epoch 3 again", "InitializeShareGroupState", 0, state_epoch=3, start_offset=9)
    case("leader epoch 5", "ReadShareGroupState", 0, leader_epoch=5)
    case("leader epoch 4", "ReadShareGroupState", 0, leader_epoch=4)
    for state_epoch in (2, 3, 4):
        for leader_epoch in (4, 5, 6, 5):
            write(f"state epoch {state_epoch}, leader {leader_epoch}", state_epoch, leader_epoch)
    for start_offset in (0, -1, -2, INT64_MAX):
        write(f"start offset {start_offset}", 4, 6, start_offset)
    case("after the writes", "ReadShareGroupState", 0, leader_epoch=6)
    case("leader epoch 1", "ReadShareGroupStateSummary", 1, leader_epoch=1)
    case("exists", "DeleteShareGroupState", 0)
    case("twice", "DeleteShareGroupState", 0)
    write("deleted", 4, 6)
    case("deleted", "ReadShareGroupState", 0, leader_epoch=0)


STORIES: tuple[Callable[[Story], None], ...] = (
    foreign_acquisitions,
    expired_locks,
    epochs_of_sessions,
    members_of_sessions,
    batches_of_acknowledgements,
    batches_of_fetches,
    classic_group,
    consumer_group,
    unknown_group,
    offsets_altered,
    members,
    a_full_group,
    epochs_of_state,
)
