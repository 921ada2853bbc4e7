"""The environment of a scenario: a driver, a broker, unique names, and checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from compat.driver import Driver, ReadRecord, Record
from compat.lab.dialogue import Refused
from compat.lab.wire_client import Batch, WireClient

Result = TypeVar("Result")
EVENTUALLY_SECONDS = 30.0
SHOWN_MAX = 300


class CheckFailed(AssertionError):
    """A check has failed; the message has the details."""


class Stage:
    """One client's part in one scenario.

    Topics and groups that it names contain the client's and the scenario's name, so that scenarios
    and clients are independent.
    """

    def __init__(self, driver: Driver, scenario: str, start: Callable[[], Driver]) -> None:
        """`start` runs another program of the same client."""
        self.driver = driver
        self._start = start
        self._others: list[Driver] = []
        self.scope = f"{driver.name}.{scenario}"
        self.members: list[str] = []

    def name(self, suffix: str = "") -> str:
        """A name of this scenario's own."""
        return f"{self.scope}.{suffix}" if suffix else self.scope

    def topic(self, suffix: str = "", partitions: int = 1, **configs: str) -> str:
        """A new topic that metadata shows whole; configs with `_` for `.`."""
        topic = self.name(suffix)
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        create_and_wait(self.driver, topic, partitions, settings)
        return topic

    def batches(self, topic: str, partition: int = 0) -> list[Batch]:
        """The headers of the stored batches, fetched past the client."""
        with WireClient(self.driver.port) as wire:
            return wire.batches(topic, partition)

    def join(self, member: str, group: str, topics: Sequence[str], **options: str) -> None:
        """A new member of a group; it leaves at the end of the scenario at the latest."""
        self.driver.join(member, group, topics, **options)
        self.members.append(member)

    def leave(self, member: str) -> None:
        """Let a member leave."""
        self.members.remove(member)
        self.driver.leave(member)

    def another_driver(self) -> Driver:
        """Another program of the same client; it ends with the scenario."""
        self._others.append(self._start())
        return self._others[-1]

    def crash(self, driver: Driver) -> None:
        """Let another program die as by a power cut."""
        self._others.remove(driver)
        driver.kill()

    def close(self) -> None:
        """Let all members leave and end other programs."""
        for member in list(self.members):
            self.leave(member)
        for other in self._others:
            other.close()


@dataclass(frozen=True)
class Scenario:
    """One test that every client must pass."""

    name: str
    play: Callable[[Stage], None]
    description: str


SCENARIOS: list[Scenario] = []


def scenario(name: str) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Register a function as a scenario; the first line of its docstring is the description."""

    def register(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        description = (play.__doc__ or "").strip().splitlines()[0]
        SCENARIOS.append(Scenario(name, play, description))
        return play

    return register


def equal(actual: object, expected: object, what: str) -> None:
    """`actual` must be `expected`."""
    if actual != expected:
        raise CheckFailed(f"{what}: got {_short(actual)}, expected {_short(expected)}")


def holds(condition: bool, what: str) -> None:
    """`condition` must hold."""
    if not condition:
        raise CheckFailed(what)


def refused(action: Callable[[], object], *names: str) -> None:
    """`action` must be refused with an error of one of these names."""
    try:
        result = action()
    except Refused as refusal:
        holds(refusal.name in names, f"refused with {refusal}, expected {' or '.join(names)}")
        return
    raise CheckFailed(f"not refused, answered {_short(result)}; expected {' or '.join(names)}")


def eventually(
    ask: Callable[[], Result],
    until: Callable[[Result], bool],
    what: str,
    seconds: float = EVENTUALLY_SECONDS,
) -> Result:
    """Ask again and again until the answer is right; metadata takes its time to spread."""
    deadline = time.monotonic() + seconds
    while not until(answer := ask()):
        if time.monotonic() > deadline:
            raise CheckFailed(f"{what}: still {_short(answer)} after {seconds:g} s")
        time.sleep(0.1)
    return answer


def create_and_wait(
    driver: Driver, topic: str, partitions: int, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic; brokers learn of it a moment after the answer, and some clients give up."""
    driver.create_topic(topic, partitions, configs)
    with WireClient(driver.port) as wire:
        eventually(
            lambda: wire.serving(topic, partitions),
            lambda count: count == partitions,
            f"partitions of {topic} that are served",
        )


def same_contents(read: Iterable[ReadRecord], written: Iterable[Record], what: str) -> None:
    """Key, value, headers and partition of each record, in order."""
    got = [record.content() for record in read]
    expected = [record.content() for record in written]
    equal(len(got), len(expected), f"{what}: how many records were read")
    for index, (one, other) in enumerate(zip(got, expected, strict=True)):
        equal(one, other, f"{what}: record {index}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}… ({len(text)} characters)"
