"""Members of different clients in one group: all classic ones, or of both protocols."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from compat.driver import Driver, Record
from compat.lab.dialogue import Unsupported
from compat.scenarios.stage import EVENTUALLY_SECONDS, CheckFailed, create_and_wait, equal

PER_PARTITION = 10


def play(drivers: Sequence[Driver]) -> None:
    """One member per client, which agree on the range strategy."""
    _play(drivers, "mixed-group", ("range",))


def play_both(drivers: Sequence[Driver]) -> None:
    """Who can, joins with the consumer protocol, the others with the classic one."""
    _play(drivers, "group-of-both", ("server", "range"))


def _play(drivers: Sequence[Driver], group: str, strategies: Sequence[str]) -> None:
    """Every record is read once, whoever owns its partition."""
    partitions = 2 * len(drivers)
    topic = f"read-by-{group}"
    create_and_wait(drivers[0], topic, partitions)
    joined: list[Driver] = []
    try:
        for driver in drivers:
            _join(driver, group, topic, strategies)
            joined.append(driver)
        _poll_until_shared(joined, partitions)
        written = [(p, n) for p in range(partitions) for n in range(PER_PARTITION)]
        drivers[0].produce(topic, [Record(str(n).encode(), partition=p) for p, n in written])
        seen: list[tuple[int, int]] = []
        deadline = time.monotonic() + EVENTUALLY_SECONDS
        while len(seen) < len(written) and time.monotonic() < deadline:
            for driver in joined:
                polled = driver.poll("mixed")
                seen += [(record.partition, record.offset) for record in polled.records]
        equal(sorted(seen), written, "partitions and offsets read by all members")
        for driver in joined:
            driver.commit("mixed")
    finally:
        # All at once: some clients leave only when a rebalance is over, for which others must poll.
        with ThreadPoolExecutor(len(drivers)) as pool:
            list(pool.map(lambda driver: driver.leave("mixed"), joined))
    committed = drivers[0].committed(group, topic)
    equal(committed, dict.fromkeys(range(partitions), PER_PARTITION), "committed offsets")


def _join(driver: Driver, group: str, topic: str, strategies: Sequence[str]) -> None:
    """With the first strategy that the client has."""
    *others, last = strategies
    for strategy in others:
        try:
            driver.join("mixed", group, [topic], strategy=strategy)
            return
        except Unsupported:
            continue
    driver.join("mixed", group, [topic], strategy=last)


def _poll_until_shared(drivers: Sequence[Driver], partitions: int) -> None:
    deadline = time.monotonic() + EVENTUALLY_SECONDS
    while True:
        owned = {driver.name: driver.poll("mixed").assignment for driver in drivers}
        names = [name for assignment in owned.values() for name in assignment]
        if len(names) == len(set(names)) == partitions and all(owned.values()):
            return
        if time.monotonic() > deadline:
            raise CheckFailed(f"the partitions were not shared: {owned}")
