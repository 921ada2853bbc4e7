"""Consumer groups of the new protocol (KIP-848), and groups on the way between both."""

from __future__ import annotations

from compat.driver import Record
from compat.scenarios.groups import count, fill, play_until, shared_evenly, survive_a_crash
from compat.scenarios.stage import Stage, equal, eventually, scenario

SERVER = "server"
"""The strategy that is none of the client's: the coordinator assigns."""


@scenario("consumer protocol scales")
def scales(stage: Stage) -> None:
    """From one member to five and back to two: all partitions are owned, no record comes twice."""
    topic, group = stage.topic(partitions=10), stage.name("group")
    members = ["one", "two", "three", "four", "five"]
    stage.join("one", group, [topic], strategy=SERVER)
    play_until(stage, ["one"], shared_evenly(topic, 10), "one member")
    for member in members[1:]:
        stage.join(member, group, [topic], strategy=SERVER)
    play_until(stage, members, shared_evenly(topic, 10), "five members")
    fill(stage, topic, 10, 10)
    received = play_until(stage, members, lambda _, got: count(got) >= 100, "100 records")
    seen = [(r.partition, r.offset) for records in received.values() for r in records]
    equal(sorted(seen), [(p, n) for p in range(10) for n in range(10)], "each record once")
    for member in members:
        stage.driver.commit(member)
    for member in ("five", "two", "three"):
        stage.leave(member)
    play_until(stage, ["one", "four"], shared_evenly(topic, 10), "two members")
    equal(group in stage.driver.groups(), True, "the group is listed")


@scenario("consumer protocol resumes")
def resumes(stage: Stage) -> None:
    """After a commit and a leave, the next member goes on exactly there; then the group goes."""
    topic, group = stage.topic(partitions=2), stage.name("group")
    fill(stage, topic, 20, 2, "old ")
    stage.join("one", group, [topic], strategy=SERVER)
    play_until(stage, ["one"], lambda _, got: count(got) >= 40, "40 records")
    stage.driver.commit("one")
    stage.leave("one")
    equal(stage.driver.committed(group, topic), {0: 20, 1: 20}, "committed offsets")
    fill(stage, topic, 5, 2, "new ")
    stage.join("two", group, [topic], strategy=SERVER)
    received = play_until(stage, ["two"], lambda _, got: count(got) >= 10, "10 new records")
    seen = sorted((record.partition, record.offset) for record in received["two"])
    equal(seen, [(p, n) for p in (0, 1) for n in range(20, 25)], "only the new records")
    stage.leave("two")
    stage.driver.delete_group(group)
    equal(group in stage.driver.groups(), False, "the group is still listed")


@scenario("consumer protocol static member")
def static_member(stage: Stage) -> None:
    """A static member that leaves and returns gets its partitions back; nobody else gets them."""
    topic, group = stage.topic(partitions=4), stage.name("group")
    stage.join("one", group, [topic], strategy=SERVER, instance="static-one")
    stage.join("two", group, [topic], strategy=SERVER, instance="static-two")
    play_until(stage, ["one", "two"], shared_evenly(topic, 4), "two members")
    owned = stage.driver.poll("two").assignment
    stage.leave("two")
    kept = stage.driver.poll("one", timeout_seconds=1.5).assignment
    equal(len(kept), 2, "partitions of the other while one is away")
    stage.join("two again", group, [topic], strategy=SERVER, instance="static-two")
    members = ["one", "two again"]
    play_until(stage, members, shared_evenly(topic, 4), "after the return")
    equal(stage.driver.poll("two again").assignment, owned, "partitions after the return")


@scenario("consumer protocol member crashes")
def member_crashes(stage: Stage) -> None:
    """A member's program dies; when its session has ended the other takes over."""
    survive_a_crash(stage, SERVER)


@scenario("consumer protocol pattern")
def pattern(stage: Stage) -> None:
    """A member reads all topics that match; also one that is created later."""
    first, group = stage.topic("orders-1", partitions=2), stage.name("group")
    stage.topic("other")
    matching = f"{stage.name('orders-')}[0-9]+".replace(".", r"\.")
    stage.join("one", group, [], strategy=SERVER, pattern=matching)
    wanted = {f"{first}-0", f"{first}-1"}
    play_until(stage, ["one"], lambda owned, _: owned["one"] == wanted, "the topic of now")
    second = stage.topic("orders-2")
    wanted.add(f"{second}-0")
    play_until(stage, ["one"], lambda owned, _: owned["one"] == wanted, "the topic of later")
    stage.driver.produce(second, [Record(b"found")])
    play_until(stage, ["one"], lambda _, got: count(got) >= 1, "its record")


@scenario("protocol migration")
def migration(stage: Stage) -> None:
    """A classic group becomes a consumer group while it reads, and classic again; none is lost."""
    topic, group = stage.topic(partitions=6), stage.name("group")
    for member in ("classic one", "classic two"):
        stage.join(member, group, [topic])
    classic = ["classic one", "classic two"]
    play_until(stage, classic, shared_evenly(topic, 6), "two classic members")
    stage.join("new", group, [topic], strategy=SERVER)
    everyone = [*classic, "new"]
    play_until(stage, everyone, shared_evenly(topic, 6), "members of both protocols")
    fill(stage, topic, 10, 6)
    received = play_until(stage, everyone, lambda _, got: count(got) >= 60, "60 records")
    seen = [(r.partition, r.offset) for records in received.values() for r in records]
    equal(sorted(seen), [(p, n) for p in range(6) for n in range(10)], "each record once")
    for member in everyone:
        stage.driver.commit(member)
    stage.leave("new")
    play_until(stage, classic, shared_evenly(topic, 6), "classic members only")
    committed = eventually(
        lambda: stage.driver.committed(group, topic), lambda found: len(found) == 6, "offsets"
    )
    equal(committed, dict.fromkeys(range(6), 10), "committed offsets")
