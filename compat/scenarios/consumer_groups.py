"""Consumer groups of the new protocol (KIP-848), and groups on the way between both."""

from __future__ import annotations

from compat.driver import Record
from compat.scenarios.groups import (
    count,
    play_until,
    read_and_commit,
    resume,
    return_of_a_static_member,
    scale,
    shared_evenly,
    survive_a_crash,
)
from compat.scenarios.stage import Stage, equal, scenario

SERVER = "server"
"""The strategy that is none of the client's: the coordinator assigns."""


@scenario("consumer protocol scales")
def scales(stage: Stage) -> None:
    """One member, five, two: all partitions are owned, no record twice, offsets exact."""
    scale(stage, SERVER)


@scenario("consumer protocol resumes")
def resumes(stage: Stage) -> None:
    """After a commit and a leave, the next member goes on exactly there; then the group goes."""
    group = resume(stage, SERVER)
    stage.driver.delete_group(group)
    equal(group in stage.driver.groups(), False, "the group is still listed")


@scenario("consumer protocol static member")
def static_member(stage: Stage) -> None:
    """A static member that leaves and returns gets its partitions back; no other member gets them."""
    return_of_a_static_member(stage, SERVER)


@scenario("consumer protocol member crashes")
def member_crashes(stage: Stage) -> None:
    """A member's program dies; when its session has ended the other takes over."""
    survive_a_crash(stage, SERVER)


@scenario("consumer protocol pattern")
def pattern(stage: Stage) -> None:
    """A member reads all topics that match the pattern, also one that is created later."""
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


def _migrate(stage: Stage, first: str, second: str) -> None:
    """Members of one protocol, then of both, then of the other only, and of the first again."""
    topic, group = stage.topic(partitions=6), stage.name("group")
    stage.join("old", group, [topic], strategy=first)
    play_until(stage, ["old"], shared_evenly(topic, 6), "one member of the first protocol")
    stage.join("new", group, [topic], strategy=second)
    play_until(stage, ["old", "new"], shared_evenly(topic, 6), "members of both protocols")
    read_and_commit(stage, topic, group, ["old", "new"], range(10), 6)
    stage.leave("old")
    play_until(stage, ["new"], shared_evenly(topic, 6), "the second protocol only")
    read_and_commit(stage, topic, group, ["new"], range(10, 20), 6)
    stage.join("old again", group, [topic], strategy=first)
    play_until(stage, ["new", "old again"], shared_evenly(topic, 6), "both protocols again")
    stage.leave("new")
    play_until(stage, ["old again"], shared_evenly(topic, 6), "the first protocol again")
    read_and_commit(stage, topic, group, ["old again"], range(20, 30), 6)


@scenario("migration from classic")
def migration_from_classic(stage: Stage) -> None:
    """A classic group becomes a consumer group while it reads, and classic again; none is lost."""
    _migrate(stage, "range", SERVER)


@scenario("migration from consumer")
def migration_from_consumer(stage: Stage) -> None:
    """A consumer group becomes a classic group while it reads, and returns; none is lost."""
    _migrate(stage, SERVER, "range")
