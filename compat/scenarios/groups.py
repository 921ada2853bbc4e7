"""Consumer groups of the classic protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from compat.driver import ReadRecord, Record
from compat.scenarios.stage import (
    EVENTUALLY_SECONDS,
    CheckFailed,
    Stage,
    equal,
    eventually,
    scenario,
)

Received = dict[str, list[ReadRecord]]


def _names(topic: str, *partitions: int) -> set[str]:
    return {f"{topic}-{partition}" for partition in partitions}


def fill(stage: Stage, topic: str, per_partition: int, partitions: int) -> None:
    """Write records to each of the topic's first partitions."""
    stage.driver.produce(
        topic,
        [
            Record(str(n).encode(), partition=partition)
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
    """Each partition has one owner, and the members' counts differ by at most one."""

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
    stage.join("one", group, [topic])
    read_and_commit(stage, topic, group, ["one"], range(25), 4)
    equal(group in stage.driver.groups(), True, "the group is listed")


def each_once(received: Received, offsets: range, partitions: int, what: str) -> None:
    """All offsets of all partitions were read once, and by each member in order."""
    for records in received.values():
        for partition in range(partitions):
            mine = [record.offset for record in records if record.partition == partition]
            equal(mine, sorted(mine), f"{what}: the order in partition {partition}")
    seen = [(r.partition, r.offset) for records in received.values() for r in records]
    equal(sorted(seen), [(p, n) for p in range(partitions) for n in offsets], what)


def read_and_commit(
    stage: Stage, topic: str, group: str, members: Iterable[str], offsets: range, partitions: int
) -> None:
    """These offsets are written, read once by the members, and committed."""
    members = list(members)
    fill(stage, topic, len(offsets), partitions)
    wanted = len(offsets) * partitions
    received = play_until(stage, members, lambda _, got: count(got) >= wanted, f"{wanted} records")
    each_once(received, offsets, partitions, "records that were read")
    for member in members:
        stage.driver.commit(member)
    committed = eventually(
        lambda: stage.driver.committed(group, topic),
        lambda found: found == dict.fromkeys(range(partitions), offsets.stop),
        "committed offsets",
    )
    equal(len(committed), partitions, "partitions with an offset")


def scale(stage: Stage, strategy: str) -> None:
    """From one member to five and back to two, with records for each size of the group."""
    topic, group = stage.topic(partitions=10), stage.name("group")
    everyone = ["one", "two", "three", "four", "five"]
    for size, member in enumerate(everyone, 1):
        stage.join(member, group, [topic], strategy=strategy)
        if size in {1, 2, 5}:
            play_until(stage, everyone[:size], shared_evenly(topic, 10), f"{size} members")
    read_and_commit(stage, topic, group, everyone, range(10), 10)
    for member in ("five", "two", "three"):
        stage.leave(member)
    play_until(stage, ["one", "four"], shared_evenly(topic, 10), "two members")
    read_and_commit(stage, topic, group, ["one", "four"], range(10, 20), 10)
    equal(group in stage.driver.groups(), True, "the group is listed")


def resume(stage: Stage, strategy: str) -> str:
    """After a commit and a leave, the next member goes on exactly there; the empty group."""
    topic, group = stage.topic(partitions=2), stage.name("group")
    for member, offsets in (("one", range(20)), ("two", range(20, 25))):
        stage.join(member, group, [topic], strategy=strategy)
        read_and_commit(stage, topic, group, [member], offsets, 2)
        stage.leave(member)
    return group


def return_of_a_static_member(stage: Stage, strategy: str) -> None:
    """It leaves, returns and has its partitions again; no other member gets them meanwhile."""
    topic, group = stage.topic(partitions=4), stage.name("group")
    for name in ("one", "two"):
        stage.join(name, group, [topic], strategy=strategy, instance=f"static-{name}")
    play_until(stage, ["one", "two"], shared_evenly(topic, 4), "two members")
    owned = stage.driver.poll("two").assignment
    stage.leave("two")
    kept = stage.driver.poll("one", timeout_seconds=1.5).assignment
    equal(len(kept), 2, "partitions of the other while one is away")
    stage.join("two again", group, [topic], strategy=strategy, instance="static-two")
    members = ["one", "two again"]
    play_until(stage, members, shared_evenly(topic, 4), "after the return")
    equal(stage.driver.poll("two again").assignment, owned, "partitions after the return")


@scenario("group scales")
def group_scales(stage: Stage) -> None:
    """One member, five, two: all partitions are owned, no record twice, offsets exact."""
    scale(stage, "range")


@scenario("group resumes")
def group_resumes(stage: Stage) -> None:
    """After a commit and a leave, the next member goes on exactly there."""
    resume(stage, "range")


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
    """The first member keeps what it keeps while a second takes half; nothing is read twice."""
    topic, group = stage.topic(partitions=4), stage.name("group")
    stage.join("one", group, [topic], strategy="cooperative-sticky")
    read_and_commit(stage, topic, group, ["one"], range(5), 4)
    stage.join("two", group, [topic], strategy="cooperative-sticky")
    kept: list[int] = []

    def is_shared(assignments: dict[str, set[str]], received: Received) -> bool:
        kept.append(len(assignments["one"]))
        return shared_evenly(topic, 4)(assignments, received)

    second = play_until(stage, ["one", "two"], is_shared, "two members")
    equal(min(kept), 2, "the fewest partitions that the first member had meanwhile")
    equal(count(second), 0, "records read twice")
    read_and_commit(stage, topic, group, ["one", "two"], range(5, 10), 4)


@scenario("cooperative group scales")
def cooperative_group_scales(stage: Stage) -> None:
    """One member, five, two, each time without giving up everything."""
    scale(stage, "cooperative-sticky")


@scenario("static member")
def static_member(stage: Stage) -> None:
    """A static member that leaves and returns gets its partitions back without a rebalance."""
    return_of_a_static_member(stage, "range")


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
    group = resume(stage, "range")
    stage.driver.delete_group(group)
    equal(group in stage.driver.groups(), False, "the group is still listed")
