"""Members of different clients in one group: they agree on the range strategy."""

from __future__ import annotations

import time
from collections.abc import Sequence

from compat.driver import Driver, Record
from compat.scenarios.stage import EVENTUALLY_SECONDS, CheckFailed, create_and_wait, equal

TOPIC = "read-by-a-mixed-group"
PER_PARTITION = 10


def play(drivers: Sequence[Driver]) -> None:
    """One member per client; every record is read once, whoever owns its partition."""
    partitions = 2 * len(drivers)
    create_and_wait(drivers[0], TOPIC, partitions)
    joined: list[Driver] = []
    try:
        for driver in drivers:
            driver.join("mixed", "mixed-group", [TOPIC])
            joined.append(driver)
        _poll_until_shared(joined, partitions)
        written = [(p, n) for p in range(partitions) for n in range(PER_PARTITION)]
        drivers[0].produce(TOPIC, [Record(str(n).encode(), partition=p) for p, n in written])
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
        for driver in joined:
            driver.leave("mixed")
    committed = drivers[0].committed("mixed-group", TOPIC)
    equal(committed, dict.fromkeys(range(partitions), PER_PARTITION), "committed offsets")


def _poll_until_shared(drivers: Sequence[Driver], partitions: int) -> None:
    deadline = time.monotonic() + EVENTUALLY_SECONDS
    while True:
        owned = {driver.name: driver.poll("mixed").assignment for driver in drivers}
        names = [name for assignment in owned.values() for name in assignment]
        if len(names) == len(set(names)) == partitions and all(owned.values()):
            return
        if time.monotonic() > deadline:
            raise CheckFailed(f"the partitions were not shared: {owned}")
