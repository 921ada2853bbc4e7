"""Simulates threads. Work runs later, on the event loop's thread.

A task begins when a thread of its pool is free. It has its effect at one moment, and reports its
completion later. So a machine may stop after the effect of a task and before its report.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import TypeVar

from odradek.env.clock import Clock
from odradek.env.executor import THREADS, Done, Pool, Work
from odradek.env.file_system import FileSystem
from odradek.env.process import ChildProcess
from odradek.sim.loop import SimLoop

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_USUAL_S = (0.000_05, 0.002)
_SLOW_S = (0.01, 0.2)
_SLOW_SHARE = 0.02
"""The fraction of tasks that are slow."""


class SimExecutor:
    """An `odradek.env.executor.Executor` with simulated threads."""

    def __init__(
        self, loop: SimLoop, random: Random, file_system: FileSystem, clock: Clock
    ) -> None:
        self._loop = loop
        self._random = random
        self._file_system = file_system
        self._clock = clock
        self._free_at = {pool: [0.0] * THREADS[pool] for pool in Pool}
        self._running = 0
        self._begun_at = dict.fromkeys(Pool, 0.0)

    def submit(self, work: Work, done: Done, pool: Pool = Pool.DISK) -> None:
        """See `Executor`."""
        threads = self._free_at[pool]
        thread = threads.index(min(threads))
        # Tasks of a pool begin in order; their execution may overlap.
        begin = max(self._loop.time(), threads[thread], self._begun_at[pool])
        self._begun_at[pool] = begin
        effect = begin + self._delay_s()
        end = threads[thread] = effect + self._delay_s()
        self._running += 1
        self._loop.call_at(effect, self._perform, work, done, end)

    def _delay_s(self) -> float:
        is_slow = self._random.random() < _SLOW_SHARE
        return self._random.uniform(*(_SLOW_S if is_slow else _USUAL_S))

    def _perform(self, work: Work, done: Done, end: float) -> None:
        error: BaseException | None = None
        try:
            work()
        except Exception as raised:  # noqa: BLE001  every exception is reported
            error = raised
        self._loop.call_at(end, self._finish, done, error)

    def _finish(self, done: Done, error: BaseException | None) -> None:
        self._running -= 1
        done(error)

    def map(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], threads: int
    ) -> Iterator[ResultT]:
        """See `Executor`."""
        return map(function, items)

    def start_process(self, module: str) -> ChildProcess:
        """See `Executor`. The module must have a `Worker`, like `odradek.log.cleaner.worker`."""
        return SimChildProcess(self._loop, self._random, module, self._file_system, self._clock)

    async def close(self) -> None:
        """See `Executor`."""
        while self._running:
            await asyncio.sleep(0.001)


class SimChildProcess:
    """A simulated child process. Its worker runs to completion shortly after a command arrives."""

    def __init__(
        self, loop: SimLoop, random: Random, module: str, file_system: FileSystem, clock: Clock
    ) -> None:
        self._loop = loop
        self._random = random
        self._worker = importlib.import_module(module).Worker(file_system, clock, _SimParent(self))
        self._output = b""
        self.is_alive = True

    def send(self, data: bytes) -> None:
        """See `ChildProcess`."""
        self._loop.call_later(self._random.uniform(0.001, 0.1), self._take, data)

    def _take(self, data: bytes) -> None:
        if self.is_alive:
            self._worker.take(data)
            self._worker.work()

    def receive(self) -> bytes:
        """See `ChildProcess`."""
        output, self._output = self._output, b""
        return output

    def write(self, data: bytes) -> None:
        """Write output of the worker for its parent."""
        self._output += data

    def kill(self) -> None:
        """See `ChildProcess`."""
        self.is_alive = False


class _SimParent:
    """The worker's connection to its parent."""

    def __init__(self, process: SimChildProcess) -> None:
        self._process = process

    def receive(self, wait_ms: float | None) -> bytes:
        """Return no data, because commands wait until the work is done."""
        return b""

    def send(self, data: bytes) -> None:
        """See `odradek.env.process.Parent`."""
        self._process.write(data)
