"""A process that does nothing but wake up: how long the machine itself keeps everybody waiting.

Where the machine is a virtual one its host may take the processors away, for tens of milliseconds
at a time. No broker can be better than this timer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

PERIOD_SECONDS = 0.002


def timer_p99_ms(samples: int, rate: int) -> float:
    """How late it is at `rate` wake-ups a second; for a process of its own."""
    late = []
    due = time.perf_counter()
    for _ in range(samples):
        due += 1 / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        late.append(time.perf_counter() - due)
    return sorted(late)[int(samples * 0.99)] * 1000


class BareTimer:
    """One that runs until it is asked. Made by `bare_timer`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def longest_ms(self) -> float:
        """How late it was at most since it was last asked."""
        self._connection.send(None)
        longest: float = self._connection.recv()
        return longest * 1000


@contextmanager
def bare_timer() -> Iterator[BareTimer]:
    """Run one, in a process of its own."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_run, args=(there,))
    process.start()
    there.close()
    try:
        yield BareTimer(here)
    finally:
        here.close()  # it ends when nobody can ask any more
        process.join()


def _run(connection: Connection) -> None:
    longest = 0.0
    while True:
        before = time.perf_counter()
        if not connection.poll(PERIOD_SECONDS):
            longest = max(longest, time.perf_counter() - before - PERIOD_SECONDS)
            continue
        try:
            connection.recv()
        except EOFError:
            return
        connection.send(longest)
        longest = 0.0
