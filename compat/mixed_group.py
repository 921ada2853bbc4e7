"""Members of different clients in one group: all classic, or of both protocols.

Each member is polled by a separate thread while the group changes, as in an application. If one
thread polled them in turn, the members could deadlock: aiokafka's poll waits for the end of a
rebalance however long that takes, and a Java consumer joins the rebalance only inside its own poll.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from compat.driver import Driver, Record
from compat.lab.dialogue import Unsupported
from compat.scenarios.stage import EVENTUALLY_SECONDS, CheckFailed, create_and_wait, equal

MEMBER = "mixed"
PER_PARTITION = 10


class Polls:
    """What the polls of all members have returned so far."""

    def __init__(self) -> None:
        self.assignments: dict[str, set[str]] = {}
        """By driver: the partitions that its member owned at the end of its last poll."""
        self.read: list[tuple[int, int]] = []
        """Partition and offset of every record."""


def play(drivers: Sequence[Driver]) -> None:
    """One member per client, all with the range assignor."""
    _play(drivers, "mixed-group", ("range",))


def play_both(drivers: Sequence[Driver]) -> None:
    """Clients that have the consumer protocol join with it, the others with the classic one."""
    _play(drivers, "group-of-both", ("server", "range"))


def _play(drivers: Sequence[Driver], group: str, strategies: Sequence[str]) -> None:
    """Check that every record is read once by some member."""
    partitions = 2 * len(drivers)
    topic = f"read-by-{group}"
    create_and_wait(drivers[0], topic, partitions)
    joined: list[Driver] = []
    try:
        for driver in drivers:
            _join(driver, group, topic, strategies)
            joined.append(driver)
        shared = poll_until(joined, lambda polls: _is_shared(polls, joined, partitions))
        if not _is_shared(shared, joined, partitions):
            raise CheckFailed(f"the partitions were not shared: {shared.assignments}")
        written = [(p, n) for p in range(partitions) for n in range(PER_PARTITION)]
        drivers[0].produce(topic, [Record(str(n).encode(), partition=p) for p, n in written])
        polls = poll_until(joined, lambda polls: len(polls.read) >= len(written))
        equal(sorted(polls.read), written, "partitions and offsets read by all members")
        for driver in joined:
            driver.commit(MEMBER)
    finally:
        # All at once: some clients leave only when a rebalance is over, for which others must poll.
        with ThreadPoolExecutor(len(drivers)) as pool:
            list(pool.map(lambda driver: driver.leave(MEMBER), joined))
    committed = drivers[0].committed(group, topic)
    equal(committed, dict.fromkeys(range(partitions), PER_PARTITION), "committed offsets")


def _join(driver: Driver, group: str, topic: str, strategies: Sequence[str]) -> None:
    """With the first strategy that the client has."""
    *others, last = strategies
    for strategy in others:
        try:
            driver.join(MEMBER, group, [topic], strategy=strategy)
            return
        except Unsupported:
            continue
    driver.join(MEMBER, group, [topic], strategy=last)


def _is_shared(polls: Polls, drivers: Sequence[Driver], partitions: int) -> bool:
    """Each partition has one owner, and each member a partition."""
    names = [name for assignment in polls.assignments.values() for name in assignment]
    owners = [name for name, assignment in polls.assignments.items() if assignment]
    return len(names) == len(set(names)) == partitions and len(owners) == len(drivers)


def poll_until(drivers: Sequence[Driver], is_done: Callable[[Polls], bool]) -> Polls:
    """Poll all members at the same time until `is_done`, or the time is up."""
    polls = Polls()
    lock = threading.Lock()
    stopped = threading.Event()
    deadline = time.monotonic() + EVENTUALLY_SECONDS

    def poll_one(driver: Driver) -> None:
        try:
            while not stopped.is_set() and time.monotonic() < deadline:
                polled = driver.poll(MEMBER)
                with lock:
                    polls.assignments[driver.name] = polled.assignment
                    polls.read += [(record.partition, record.offset) for record in polled.records]
                    if is_done(polls):
                        stopped.set()
        except BaseException:
            stopped.set()
            raise

    with ThreadPoolExecutor(len(drivers)) as pool:
        for future in [pool.submit(poll_one, driver) for driver in drivers]:
            future.result()
    return polls
