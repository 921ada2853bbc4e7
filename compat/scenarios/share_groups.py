"""Share groups (KIP-932): members work off the records of a topic together."""

from __future__ import annotations

import time
from collections.abc import Mapping

from compat.driver import Record, SharedRecord
from compat.lab.dialogue import Refused
from compat.scenarios.stage import CheckFailed, Stage, equal, holds, scenario

POLLING_SECONDS = 60.0
EXPLICIT = {"share.acknowledgement.mode": "explicit"}
DELIVER_AT = "odradek.deliver.at"
LIMITED = {"share.acquire.mode": "record_limit"}


class _Group:
    """A share group of the scenario, which begins at the start of its topic."""

    def __init__(self, stage: Stage, topic: str, suffix: str = "", **configs: str) -> None:
        self.stage = stage
        self.topic = topic
        self.name = stage.name(f"group{suffix}")
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        stage.driver.alter_group(self.name, {"share.auto.offset.reset": "earliest", **settings})

    def join(self, member: str, configs: Mapping[str, str] | None = None) -> None:
        """A new member."""
        member = f"{self.name}-{member}"
        self.stage.driver.share_join(member, self.name, [self.topic], configs or {})

    def leave(self, member: str) -> None:
        """A member leaves."""
        self.stage.driver.share_leave(f"{self.name}-{member}")

    def poll(self, member: str, count: int) -> list[SharedRecord]:
        """Poll until `count` records have come; a poll returns those of one acquisition."""
        found: list[SharedRecord] = []
        deadline = time.monotonic() + POLLING_SECONDS
        while len(found) < count:
            found += self.stage.driver.share_poll(f"{self.name}-{member}")
            if time.monotonic() > deadline:
                raise CheckFailed(f"{member} has only {found}, not {count} records")
        return found

    def acknowledge(self, member: str, types: Mapping[int, str]) -> None:
        """Acknowledge records; there must be no error."""
        errors = self.stage.driver.share_acknowledge(f"{self.name}-{member}", types)
        equal(errors, [], "errors of acknowledgements")


def _deliveries(records: list[SharedRecord]) -> list[tuple[int, int]]:
    return sorted((each.offset, each.deliveries) for each in records)


def _values(count: int) -> list[Record]:
    return [Record(b"%d" % number) for number in range(count)]


@scenario("share group acknowledges")
def acknowledges(stage: Stage) -> None:
    """Accepted and rejected records never come back; released ones come back with their count."""
    group = _Group(stage, stage.topic())
    group.join("one", EXPLICIT)
    stage.driver.produce(group.topic, _values(6))
    equal(_deliveries(group.poll("one", 6)), [(n, 1) for n in range(6)], "first deliveries")
    types = ("ACCEPT", "ACCEPT", "RELEASE", "RELEASE", "REJECT", "ACCEPT")
    group.acknowledge("one", dict(enumerate(types)))
    equal(_deliveries(group.poll("one", 2)), [(2, 2), (3, 2)], "released records")
    group.acknowledge("one", {2: "ACCEPT", 3: "ACCEPT"})
    stage.driver.produce(group.topic, _values(1))
    equal(_deliveries(group.poll("one", 1)), [(6, 1)], "the next record")
    group.acknowledge("one", {6: "ACCEPT"})
    group.leave("one")


@scenario("share group lock ends")
def lock_ends(stage: Stage) -> None:
    """A record whose lock has ended goes to another member; a renewed one does not."""
    group = _Group(stage, stage.topic(), share_record_lock_duration_ms="3000")
    group.join("one", EXPLICIT)
    stage.driver.produce(group.topic, _values(2))
    group.poll("one", 2)
    group.acknowledge("one", {0: "ACCEPT", 1: "RENEW"})
    group.join("two", EXPLICIT)
    # On a slow machine the lock may end again before "two" has the record.
    again = [(offset, count > 1) for offset, count in _deliveries(group.poll("two", 1))]
    equal(again, [(1, True)], "the record of the ended lock")
    group.acknowledge("two", {1: "ACCEPT"})
    group.leave("two")
    group.leave("one")


@scenario("share group lock is not renewed")
def lock_is_not_renewed(stage: Stage) -> None:
    """A record that is not acknowledged in time goes to another member, with the next count."""
    group = _Group(stage, stage.topic(), share_record_lock_duration_ms="3000")
    group.join("one", EXPLICIT)
    stage.driver.produce(group.topic, _values(2))
    group.poll("one", 2)
    group.acknowledge("one", {0: "ACCEPT"})
    group.join("two", EXPLICIT)
    again = [(offset, count > 1) for offset, count in _deliveries(group.poll("two", 1))]
    equal(again, [(1, True)], "the record of the ended lock")
    group.acknowledge("two", {1: "ACCEPT"})
    group.leave("two")
    group.leave("one")


@scenario("share group member dies")
def member_dies(stage: Stage) -> None:
    """The records of a member that is killed go to another member, before their locks end."""
    group = _Group(stage, stage.topic())
    stage.driver.produce(group.topic, _values(3))
    doomed = stage.another_driver()
    doomed.share_join("doomed", group.name, [group.topic], EXPLICIT)
    found: list[SharedRecord] = []
    deadline = time.monotonic() + POLLING_SECONDS
    while not found and time.monotonic() < deadline:
        found = doomed.share_poll("doomed")
    equal(_deliveries(found), [(n, 1) for n in range(3)], "the records of the first member")
    equal(doomed.share_acknowledge("doomed", {1: "ACCEPT"}), [], "errors of acknowledgements")
    stage.crash(doomed)
    group.join("one", EXPLICIT)
    equal(_deliveries(group.poll("one", 2)), [(0, 2), (2, 2)], "what the first member has left")
    group.acknowledge("one", {0: "ACCEPT", 2: "ACCEPT"})
    group.leave("one")


@scenario("share group delivery limit")
def delivery_limit(stage: Stage) -> None:
    """A record is delivered as often as its group allows, then never again."""
    group = _Group(stage, stage.topic(), share_delivery_count_limit="3")
    group.join("one", EXPLICIT)
    stage.driver.produce(group.topic, _values(1))
    for delivery in (1, 2, 3):
        equal(_deliveries(group.poll("one", 1)), [(0, delivery)], "the record")
        group.acknowledge("one", {0: "RELEASE"})
    stage.driver.produce(group.topic, _values(1))
    equal(_deliveries(group.poll("one", 1)), [(1, 1)], "the next record")
    group.acknowledge("one", {1: "ACCEPT"})
    group.leave("one")


@scenario("share group record limit")
def record_limit(stage: Stage) -> None:
    """With record_limit a member gets exactly as many records as it wants (KIP-1206)."""
    group = _Group(stage, stage.topic())
    stage.driver.produce(group.topic, _values(5))
    group.join("one", {**EXPLICIT, **LIMITED, "max.poll.records": "2"})
    seen: list[int] = []
    while len(seen) < 5:
        got = group.poll("one", 1)
        holds(len(got) <= 2, f"{len(got)} records instead of at most two")
        group.acknowledge("one", {each.offset: "ACCEPT" for each in got})
        seen += [each.offset for each in got]
    equal(sorted(seen), list(range(5)), "all records")
    group.leave("one")


@scenario("share groups and members")
def groups_and_members(stage: Stage) -> None:
    """Two groups see all records each; within a group, members that come and go share them."""
    topic = stage.topic(partitions=2)
    first, second = _Group(stage, topic, "-a"), _Group(stage, topic, "-b")
    records = [Record(b"%d" % number, partition=number % 2) for number in range(40)]
    stage.driver.produce(topic, records[:20])
    first.join("one")
    second.join("one")
    seen = {first.name: first.poll("one", 20), second.name: second.poll("one", 20)}
    first.join("two")
    stage.driver.produce(topic, records[20:])
    first.acknowledge("one", {})  # accepts what it has polled
    first.leave("one")
    seen[first.name] += first.poll("two", 20)
    seen[second.name] += second.poll("one", 20)
    for name, found in seen.items():
        equal(sorted(int(each.value) for each in found), list(range(40)), f"the records of {name}")
        equal({each.deliveries for each in found}, {1}, f"the deliveries of {name}")
    first.leave("two")
    second.leave("one")


@scenario("share group many groups")
def many_groups(stage: Stage) -> None:
    """Six groups on one topic each get every record once, whatever the others do with them."""
    topic = stage.topic()
    groups = [_Group(stage, topic, f"-{number}") for number in range(6)]
    stage.driver.produce(topic, _values(5))
    for group in groups:
        group.join("one", EXPLICIT)
    for number, group in enumerate(groups):
        equal(_deliveries(group.poll("one", 5)), [(n, 1) for n in range(5)], "first deliveries")
        kept = dict.fromkeys(range(5), "ACCEPT")
        group.acknowledge("one", {**kept, 2: "RELEASE" if number % 2 else "REJECT"})
    stage.driver.produce(topic, _values(1))
    for number, group in enumerate(groups):
        expected = [(2, 2), (5, 1)] if number % 2 else [(5, 1)]
        found = group.poll("one", len(expected))
        equal(_deliveries(found), expected, "the rest")
        group.acknowledge("one", {each.offset: "ACCEPT" for each in found})
        group.leave("one")


@scenario("share group members come and go")
def members_come_and_go(stage: Stage) -> None:
    """What a member has accepted never comes back; what it has not is delivered to the next one."""
    group = _Group(stage, stage.topic())
    for turn in range(4):
        stage.driver.produce(group.topic, _values(3))
        base = 3 * turn
        member = f"member{turn}"
        group.join(member, EXPLICIT)
        expected = [(base + n, 1) for n in range(3)]
        if turn:
            expected = [(base - 1, 2), *expected]
        equal(_deliveries(group.poll(member, len(expected))), expected, f"records of {member}")
        types = {offset: "ACCEPT" for offset, _ in expected}
        group.acknowledge(member, {**types, base + 2: "RELEASE"})
        group.leave(member)


@scenario("share group reads committed")
def reads_committed(stage: Stage) -> None:
    """With read_committed a group does not get records of aborted transactions."""
    group = _Group(stage, stage.topic(), share_isolation_level="read_committed")
    name = stage.name("id")
    for number, end in enumerate(("commit", "abort", "commit")):
        stage.driver.transact(name, group.topic, [Record(b"%d" % number)], end)
    group.join("one")
    found = group.poll("one", 2)
    equal([each.value for each in found], [b"0", b"2"], "committed records")
    group.leave("one")


@scenario("share group by duration")
def by_duration(stage: Stage) -> None:
    """A group may begin with the records of the last hour."""
    group = _Group(stage, stage.topic(), share_auto_offset_reset="by_duration:PT1H")
    now_ms = int(time.time() * 1000)
    stage.driver.produce(group.topic, [Record(b"old", timestamp=now_ms - 7_200_000)])
    stage.driver.produce(group.topic, [Record(b"new", timestamp=now_ms)])
    group.join("one")
    equal([each.value for each in group.poll("one", 1)], [b"new"], "the records of the last hour")
    group.leave("one")


@scenario("share group delays")
def delays(stage: Stage) -> None:
    """Odradek delivers records at the time in a header; Apache Kafka refuses the setting for it."""
    group = _Group(stage, stage.topic())
    try:
        stage.driver.alter_group(group.name, {"odradek.share.delay.enable": "true"})
    except Refused as refusal:
        equal(refusal.name, "INVALID_CONFIG", "the error of an unknown setting")
        has_delays = False
    else:
        has_delays = True
    begin_ms = int(time.time() * 1000)
    due_ms = [begin_ms + 4_000, None, begin_ms + 2_500, None, begin_ms + 2_500, 1, begin_ms + 2_000]
    records = [
        Record(b"%d" % number, headers=() if due is None else ((DELIVER_AT, b"%d" % due),))
        for number, due in enumerate(due_ms)
    ]
    stage.driver.produce(group.topic, records)
    group.join("one", EXPLICIT)
    arrived: list[int] = []
    while len(arrived) < len(records):
        found = group.poll("one", 1)
        now_ms = int(time.time() * 1000)
        for each in found:
            due = due_ms[each.offset]
            holds(not has_delays or due is None or now_ms >= due, f"{each} came before its time")
            equal(each.deliveries, 1, "deliveries")
        arrived += [each.offset for each in found]
        group.acknowledge("one", {each.offset: "ACCEPT" for each in found})
    equal(sorted(arrived), list(range(len(records))), "all records")
    group.leave("one")


@scenario("share group priorities")
def priorities(stage: Stage) -> None:
    """Odradek delivers records of preferred topics first; Apache Kafka refuses the setting."""
    high, low = _Group(stage, stage.topic("high")), stage.topic("low")
    driver, member, name = stage.driver, stage.name("one"), high.name
    try:
        driver.alter_group(name, {"odradek.share.priority": f"{high.topic}:1,{low}:-1"})
    except Refused as refusal:
        equal(refusal.name, "INVALID_CONFIG", "the error of an unknown setting")
        has_priorities = False
    else:
        has_priorities = True
    driver.share_join(
        member, name, [low, high.topic], {**EXPLICIT, **LIMITED, "max.poll.records": "1"}
    )

    def taken(count: int) -> list[bytes]:
        values: list[bytes] = []
        deadline = time.monotonic() + POLLING_SECONDS
        while len(values) < count:
            holds(time.monotonic() < deadline, f"only {values}, not {count} records")
            for each in driver.share_poll(member):
                values.append(each.value)
                equal(driver.share_acknowledge(member, {each.offset: "ACCEPT"}), [], "errors")
        return values

    for topic in (low, high.topic):
        driver.produce(topic, [Record(b"first")])
    equal(taken(2), [b"first"] * 2, "the first records")
    # A request that waits for records gets one of those that are written first.
    for topic, value in ((high.topic, b"high"), (low, b"low")):
        driver.produce(topic, [Record(value)] * 4)
    expected = [b"high"] * 4 + [b"low"] * 4
    found = taken(8)
    equal(found if has_priorities else sorted(found), expected, "the records")
    driver.share_leave(member)
