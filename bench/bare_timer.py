"""Measures how long the machine delays processes, with a process that only wakes up.

The host of a virtual machine may take the processors away for tens of milliseconds at a time. No
broker can be better than this timer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

PERIOD_SECONDS = 0.002


def timer_p99_ms(samples: int, rate: int) -> float:
    """Return the 99th percentile of the delay of `samples` wake-ups, in ms.

    There are `rate` wake-ups per second. Call this function in a separate process.
    """
    late = []
    due = time.perf_counter()
    for _ in range(samples):
        due += 1 / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        late.append(time.perf_counter() - due)
    return sorted(late)[int(samples * 0.99)] * 1000


class BareTimer:
    """A running timer, which `bare_timer` yields."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def longest_ms(self) -> float:
        """Return the longest delay of the timer since the last call, in ms."""
        self._connection.send(None)
        longest: float = self._connection.recv()
        return longest * 1000


@contextmanager
def bare_timer() -> Iterator[BareTimer]:
    """Run a timer in a separate process."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_run, args=(there,))
    process.start()
    there.close()
    try:
        yield BareTimer(here)
    finally:
        here.close()  # the process ends when the pipe is closed
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
