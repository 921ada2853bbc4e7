"""Consumer groups of the classic protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from compat.driver import ReadRecord, Record
from compat.scenarios.stage import EVENTUALLY_SECONDS, CheckFailed, Stage, equal, scenario

Received = dict[str, list[ReadRecord]]


def _names(topic: str, *partitions: int) -> set[str]:
    return {f"{topic}-{partition}" for partition in partitions}


def fill(stage: Stage, topic: str, per_partition: int, partitions: int, tag: str = "") -> None:
    stage.driver.produce(
        topic,
        [
            Record(f"{tag}{n}".encode(), partition=partition)
            for partition in range(partitions)
            for n in range(per_partition)
        ],
    )


def play_until(
    stage: Stage,
    members: Iterable[str],
    until: Callable[[dict[str, set[str]], Received], bool],
    what: str,
) -> Received:
    """Poll the members in turn until `until(assignments, records)` holds; all that they got."""
    names = list(members)
    received: Received = {name: [] for name in names}
    assignments: dict[str, set[str]] = {name: set() for name in names}
    deadline = time.monotonic() + EVENTUALLY_SECONDS
    while True:
        for name in names:
            polled = stage.driver.poll(name)
            received[name] += polled.records
            assignments[name] = polled.assignment
        if until(assignments, received):
            return received
        if time.monotonic() > deadline:
            counts = {name: len(records) for name, records in received.items()}
            raise CheckFailed(f"{what}: still {assignments} with {counts} records")


def shared_evenly(topic: str, partitions: int) -> Callable[[dict[str, set[str]], Received], bool]:
    """All partitions are owned, none twice, and nobody has two more than another."""

    def holds(assignments: dict[str, set[str]], received: Received) -> bool:
        owned = [name for assignment in assignments.values() for name in assignment]
        sizes = [len(assignment) for assignment in assignments.values()]
        return (
            sorted(owned) == sorted(_names(topic, *range(partitions)))
            and max(sizes) - min(sizes) <= 1
        )

    return holds


def count(received: Received) -> int:
    return sum(len(records) for records in received.values())


@scenario("group of one")
def group_of_one(stage: Stage) -> None:
    """A single member owns all partitions and reads everything; the group is listed."""
    topic, group = stage.topic(partitions=4), stage.name("group")
    fill(stage, topic, 25, 4)
    stage.join("one", group, [topic])
    received = play_until(stage, ["one"], lambda _, got: count(got) >= 100, "100 records")
    for partition in range(4):
        mine = [record for record in received["one"] if record.partition == partition]
        equal([record.offset for record in mine], list(range(25)), f"offsets of {partition}")
    equal(group in stage.driver.groups(), True, "the group is listed")


@scenario("group join and leave")
def group_join_and_leave(stage: Stage) -> None:
    """A second and a third member share the partitions; when one leaves the others take over."""
    topic, group = stage.topic(partitions=6), stage.name("group")
    stage.join("one", group, [topic])
    play_until(stage, ["one"], shared_evenly(topic, 6), "one member")
    stage.join("two", group, [topic])
    play_until(stage, ["one", "two"], shared_evenly(topic, 6), "two members")
    stage.join("three", group, [topic])
    members = ["one", "two", "three"]
    play_until(stage, members, shared_evenly(topic, 6), "three members")
    fill(stage, topic, 10, 6)
    received = play_until(stage, members, lambda _, got: count(got) >= 60, "60 records")
    seen = [(r.partition, r.offset) for records in received.values() for r in records]
    equal(sorted(seen), [(p, n) for p in range(6) for n in range(10)], "each record once")
    for member in members:
        stage.driver.commit(member)
    stage.leave("two")
    play_until(stage, ["one", "three"], shared_evenly(topic, 6), "after one left")


@scenario("group resumes")
def group_resumes(stage: Stage) -> None:
    """After a commit and a leave, the next member goes on exactly there."""
    topic, group = stage.topic(partitions=2), stage.name("group")
    fill(stage, topic, 20, 2, "old ")
    stage.join("one", group, [topic])
    play_until(stage, ["one"], lambda _, got: count(got) >= 40, "40 records")
    stage.driver.commit("one")
    stage.leave("one")
    equal(stage.driver.committed(group, topic), {0: 20, 1: 20}, "committed offsets")
    fill(stage, topic, 5, 2, "new ")
    stage.join("two", group, [topic])
    received = play_until(stage, ["two"], lambda _, got: count(got) >= 10, "10 new records")
    seen = sorted((record.partition, record.offset) for record in received["two"])
    equal(seen, [(p, n) for p in (0, 1) for n in range(20, 25)], "only the new records")


@scenario("group without commit")
def group_without_commit(stage: Stage) -> None:
    """What was not committed is read again."""
    topic, group = stage.topic(), stage.name("group")
    fill(stage, topic, 10, 1)
    for member in ("one", "two"):
        stage.join(member, group, [topic])
        received = play_until(stage, [member], lambda _, got: count(got) >= 10, "10 records")
        offsets = [record.offset for record in received[member]]
        equal(offsets, list(range(10)), f"offsets that member {member} read")
        stage.leave(member)


@scenario("cooperative rebalance")
def cooperative_rebalance(stage: Stage) -> None:
    """With the cooperative protocol a second member takes half, and nothing is read twice."""
    topic, group = stage.topic(partitions=4), stage.name("group")
    fill(stage, topic, 5, 4)
    stage.join("one", group, [topic], strategy="cooperative-sticky")
    first = play_until(stage, ["one"], lambda _, got: count(got) >= 20, "20 records")
    stage.driver.commit("one")
    stage.join("two", group, [topic], strategy="cooperative-sticky")
    second = play_until(stage, ["one", "two"], shared_evenly(topic, 4), "two members")
    equal(count(second), 0, "records read twice")
    equal(count(first), 20, "records read once")


@scenario("static member")
def static_member(stage: Stage) -> None:
    """A static member that leaves and returns gets its partitions back without a rebalance."""
    topic, group = stage.topic(partitions=4), stage.name("group")
    stage.join("one", group, [topic], instance="static-one")
    stage.join("two", group, [topic], instance="static-two")
    play_until(stage, ["one", "two"], shared_evenly(topic, 4), "two members")
    owned = stage.driver.poll("two").assignment
    stage.leave("two")
    kept = stage.driver.poll("one", timeout_seconds=1.0).assignment
    equal(len(kept), 2, "partitions of the other while one is away")
    stage.join("two again", group, [topic], instance="static-two")
    members = ["one", "two again"]
    play_until(stage, members, shared_evenly(topic, 4), "after the return")
    equal(stage.driver.poll("two again").assignment, owned, "partitions after the return")


def _different(received: Received) -> int:
    """How many records came, not counting those that came again."""
    return len({(r.partition, r.offset) for records in received.values() for r in records})


def survive_a_crash(stage: Stage, strategy: str) -> None:
    """A member's program dies; the other member takes over, and reads what was not committed."""
    topic, group = stage.topic(partitions=4), stage.name("group")
    victim = stage.another_driver()
    victim.join("victim", group, [topic], strategy=strategy)
    stage.join("survivor", group, [topic], strategy=strategy)
    deadline = time.monotonic() + EVENTUALLY_SECONDS
    owned: list[set[str]] = []
    while [len(each) for each in owned] != [2, 2] or owned[0] & owned[1]:
        if time.monotonic() > deadline:
            raise CheckFailed(f"both members: still {owned}")
        members = ((victim, "victim"), (stage.driver, "survivor"))
        owned = [driver.poll(name).assignment for driver, name in members]
    stage.crash(victim)
    fill(stage, topic, 5, 4)
    received = play_until(
        stage,
        ["survivor"],
        lambda assignments, got: (
            shared_evenly(topic, 4)(assignments, got) and _different(got) == 20
        ),
        "the survivor",
    )
    seen = {(record.partition, record.offset) for record in received["survivor"]}
    equal(sorted(seen), [(p, n) for p in range(4) for n in range(5)], "each record")


@scenario("member crashes")
def member_crashes(stage: Stage) -> None:
    """A member's program dies; when its session has ended the other takes over."""
    survive_a_crash(stage, "range")


@scenario("delete group")
def delete_group(stage: Stage) -> None:
    """An empty group can be deleted, and its offsets with it."""
    topic, group = stage.topic(), stage.name("group")
    fill(stage, topic, 3, 1)
    stage.join("one", group, [topic])
    play_until(stage, ["one"], lambda _, got: count(got) >= 3, "3 records")
    stage.driver.commit("one")
    stage.leave("one")
    stage.driver.delete_group(group)
    equal(group in stage.driver.groups(), False, "the group is still listed")
