"""Restarts a broker whose `__consumer_offsets` has five million commits.

First ten thousand groups commit a hundred partitions per request, repeatedly. Then the broker is
stopped cleanly and started again, with its files in the page cache. For each partition of
`__consumer_offsets`, the offsets of one group are requested until the response has the last commit.
Meanwhile records are written to another topic, one at a time.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Mapping
from typing import Self

from compat.lab.broker import Broker
from compat.lab.wire_client import WireClient

from bench.environment import Contender, Environment
from bench.figures import Figure, Quantity
from bench.groups.commits import check_commit, commit_frame
from bench.groups.connection import Connection, connect
from bench.groups.trial import (
    PATIENCE_SECONDS,
    fetch_offsets,
    longest_pause_ms,
    make_topics,
    one_group_each,
    wait_for_coordinators,
)

RECORDS = 5_000_000
GROUPS = 10_000
PARTITIONS = 100
COMMITTED, OTHER = "committed", "other"
CONNECTIONS = 4
OFFSETS_PARTITIONS = 50
POLL_SECONDS = 0.05
PRODUCE_SECONDS = 0.005
"""Pause between two records for the other topic."""

RESTART = Quantity("restart until all groups are served", "s", 1.5)
LOAD = Quantity("of it after the first answer", "s")
CPU = Quantity("CPU of the restart", "s")
P50 = Quantity("produce to another topic meanwhile, p50", "ms")
P99 = Quantity("produce to another topic meanwhile, p99", "ms")
PAUSE = Quantity("longest pause of the loop", "ms")
MEMORY = Quantity("memory afterwards", "MB")
QUANTITIES = [RESTART, LOAD, CPU, P50, P99, PAUSE, MEMORY]


def groups() -> list[str]:
    """Return the group ids, with the same number for each partition of `__consumer_offsets`."""
    found = []
    for number in range(GROUPS // OFFSETS_PARTITIONS):
        found += one_group_each(OFFSETS_PARTITIONS, f"restart-{number}")
    return found


async def fill(port: int, passes: int) -> None:
    """Let every group commit every partition `passes` times. The last offset is `passes`."""
    names = groups()

    async def commit(connection: Connection, part: list[str], offset: int) -> None:
        for name in part:
            frame = commit_frame(name, COMMITTED, range(PARTITIONS), offset)
            check_commit(await connection.send(frame))

    connections = await connect(port, CONNECTIONS)
    for offset in range(1, passes + 1):
        parts = [names[index::CONNECTIONS] for index in range(CONNECTIONS)]
        pairs = zip(connections, parts, strict=True)
        await asyncio.gather(*(commit(*pair, offset) for pair in pairs))
    for connection in connections:
        connection.close()


class Bystander:
    """Writes to another topic in a thread. `waited` has the seconds until each acknowledgement."""

    def __init__(self, broker: Broker) -> None:
        self._client = WireClient(broker.port, timeout=PATIENCE_SECONDS)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.waited: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._client.close()

    def _write(self) -> None:
        while not self._ended.is_set():
            started = time.monotonic()
            if self._client.produce_one(OTHER, b"x" * 100) == 0:
                self.waited.append(time.monotonic() - started)
            time.sleep(PRODUCE_SECONDS)


def restart(contender: Contender, last_offset: int) -> Mapping[str, float]:
    """Stop and start the broker, and wait for all groups. Return the values by name."""
    broker = contender.broker
    broker.stop(PATIENCE_SECONDS)
    asked = one_group_each(OFFSETS_PARTITIONS, "restart-0")
    broker.start()
    answered = time.monotonic()
    with WireClient(broker.port, timeout=PATIENCE_SECONDS) as client, Bystander(broker) as other:
        while len(found := fetch_offsets(client, asked, COMMITTED, PARTITIONS - 1)) < len(asked):
            time.sleep(POLL_SECONDS)
        loaded = time.monotonic()
    assert set(found.values()) == {last_offset}, f"some offsets are not {last_offset}"
    percentiles = statistics.quantiles(other.waited, n=100)
    values = {
        RESTART.name: loaded - broker.started_at,
        LOAD.name: loaded - answered,
        CPU.name: broker.cpu_seconds(),
        P50.name: percentiles[49] * 1000,
        P99.name: percentiles[98] * 1000,
        MEMORY.name: broker.rss_bytes() / 1e6,
    }
    pause = longest_pause_ms(contender)
    return values if pause is None else {**values, PAUSE.name: pause}


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    passes = max(1, environment.scaled(RECORDS) // (GROUPS * PARTITIONS))
    for contender in environment.contenders:
        broker = contender.broker
        make_topics(broker, {COMMITTED: PARTITIONS, OTHER: 1})
        wait_for_coordinators(broker)
        started = time.monotonic()
        asyncio.run(fill(broker.port, passes))
        took = time.monotonic() - started
        print(f"{'restart':16} {broker.name} took {passes} million commits in {took:.0f} s")
    return environment.play("restart", QUANTITIES, lambda each: restart(each, passes), warm_ups=0)
