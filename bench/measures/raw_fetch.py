"""Measures the broker's CPU time for fetches of 1 MB, with a client that only receives.

The client reads a topic of a gigabyte through a plain socket, one fetch after the other, with full
requests and without a fetch session. The fetches are measured twice: immediately after the topic
was written, and after other work (`--other-work-seconds`, by default a minute). The other work
consists of the mixed load and of large records to topics that are deleted. Then some pages of the
topic are dropped from the page cache, as a machine does when its memory is full. The fetches should
not be slower after the other work.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping

from compat.lab.wire_client import WireClient

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity
from bench.measures.mixed_day import PROPERTIES as MIXED_PROPERTIES
from bench.measures.mixed_day import WORK
from bench.measures.producing import PROPERTIES
from bench.payloads import UNIFORM
from bench.raw_client import Planned, RawClient

BYTES, SIZE = 1_000_000_000, 1000
FETCH_BYTES = 1 << 20
PASSES = 3
LIMIT = 0.6
SLOWER_MAX = 1.1
LARGE_BYTES, LARGE_SIZE = 300_000_000, 10_000
MIXED_SECONDS = 5
LOST_BYTES, LOST_EVERY_BYTES = 128 << 10, 8 << 20
FRESH = Quantity("CPU, just written", "s/GB", LIMIT)
LATER = Quantity("CPU, after other work", "s/GB", LIMIT)
FRESH_SPEED = Quantity("throughput, just written", "MB/s", higher_is_better=True, primary=False)
LATER_SPEED = Quantity("throughput, after other work", "MB/s", higher_is_better=True, primary=False)
SLOWER = Quantity("CPU, after other work / just written", "times", most=SLOWER_MAX)


class Topic:
    """A topic of one broker, and the fetches that read it."""

    def __init__(self, contender: Contender, name: str) -> None:
        self._contender = contender
        self._name = name
        with WireClient(contender.broker.port) as wire:
            self._end_offset = wire.end_offsets(name, 1)[0]
        self._planned: list[Planned] = []
        with RawClient(contender.broker.port, FETCH_BYTES) as client:
            self._planned = client.plan(name, self._end_offset)

    def read(self, passes: int) -> tuple[float, float, float]:
        """Read the topic `passes` times. Return bytes, seconds, and the broker's CPU seconds."""
        with RawClient(self._contender.broker.port, FETCH_BYTES) as client:
            meter = CpuMeter(self._contender.broker)
            started = time.monotonic()
            received = sum(client.replay(self._planned) for _ in range(passes))
            return received, time.monotonic() - started, meter.seconds()

    def lose_pages(self) -> None:
        """Write the topic to the device, and drop a part of it from the page cache."""
        for path in self._contender.broker.data.glob(f"{self._name}-*/*.log"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                for position in range(0, os.fstat(descriptor).st_size, LOST_EVERY_BYTES):
                    os.posix_fadvise(descriptor, position, LOST_BYTES, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    with contextlib.ExitStack() as stack:
        topics = {}
        for contender in environment.contenders:
            name = stack.enter_context(environment.topic(contender))
            environment.load(
                contender,
                "produce",
                topic=name,
                records=environment.scaled(BYTES) // SIZE,
                size=SIZE,
                properties=PROPERTIES,
            )
            topics[contender.role] = Topic(contender, name)

        def one_round(cpu: Quantity, speed: Quantity, contender: Contender) -> Mapping[str, float]:
            received, seconds, spent = topics[contender.role].read(PASSES)
            return {cpu.name: spent / received * 1e9, speed.name: received / seconds / 1e6}

        figures = environment.play(
            "raw_fetch", [FRESH, FRESH_SPEED], lambda each: one_round(FRESH, FRESH_SPEED, each)
        )
        other_work(environment)
        for topic in topics.values():
            topic.lose_pages()
        figures += environment.play(
            "raw_fetch", [LATER, LATER_SPEED], lambda each: one_round(LATER, LATER_SPEED, each)
        )
    return [*figures, slower(fresh=figures[0], later=figures[2])]


def slower(fresh: Figure, later: Figure) -> Figure:
    """Return the ratio of the CPU time per byte after and before the other work, for each round."""
    values = {
        role: [after / before for after, before in zip(later.values[role], befores, strict=True)]
        for role, befores in fresh.values.items()
    }
    return Figure("raw_fetch", SLOWER, values)


def other_work(environment: Environment) -> None:
    """Load the two brokers alternately, for `environment.other_work_seconds` in total."""
    deadline = time.monotonic() + environment.scaled(environment.other_work_seconds)
    while time.monotonic() < deadline:
        for contender in environment.contenders:
            with environment.topic(contender) as large, environment.topic(contender, 6) as mixed:
                environment.load(
                    contender,
                    "produce",
                    topic=large,
                    size=LARGE_SIZE,
                    records=environment.scaled(LARGE_BYTES) // LARGE_SIZE,
                    properties=PROPERTIES,
                )
                environment.load(
                    contender,
                    "mixed_day",
                    topic=mixed,
                    replayed=large,
                    seconds=MIXED_SECONDS,
                    payloads=str(environment.payloads(UNIFORM)),
                    properties=MIXED_PROPERTIES,
                    **WORK,
                )
