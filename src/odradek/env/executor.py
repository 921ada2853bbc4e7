"""Threads and child processes, passed as an argument.

Everything that serves clients runs on the thread of one event loop. Work that would block this
thread (syncs, cold reads, recovery, snapshots, computations) is submitted to an `Executor`. An
executor also starts child processes. `ThreadExecutor` uses threads. A simulation runs the work on
the loop's thread at a time that it chooses. `InlineExecutor` runs the work at once, for tools and
tests that have no loop.

Each work item reports its end exactly once, with the exception that it raised, of any class, so
that no caller waits forever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import Protocol, TypeVar

from odradek.env.process import ChildProcess, PipedProcess

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

Work = Callable[[], object]
Done = Callable[[BaseException | None], None]
"""A callback that receives the exception that the work raised, or None."""

Lock = threading.Lock
"""Guards the state that work items of an executor share. No other kind of lock is taken while it is
held."""


class Pool(Enum):
    """Threads for one kind of work: work in one pool never waits for work in another."""

    DISK = "disk"
    """Syncs of partitions, cold reads, checkpoints, removals."""
    METADATA = "metadata"
    """Syncs of the metadata log, one at a time."""
    SNAPSHOT = "snapshot"
    """Snapshots of the metadata, one at a time."""
    GENERAL = "general"
    """Loading of logs and coordinators, computations."""


THREADS = {Pool.DISK: 4, Pool.METADATA: 1, Pool.SNAPSHOT: 1, Pool.GENERAL: 4}
"""How many work items of a pool run at the same time."""


class Executor(Protocol):
    """See the module."""

    def submit(self, work: Work, done: Done, pool: Pool = Pool.DISK) -> None:
        """Run `work()` on another thread, then `done(error)` on the loop's thread.

        Call it on the loop's thread. Work in a pool starts in the order of submission.
        """
        ...

    def map(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], threads: int
    ) -> Iterator[ResultT]:
        """Return an iterator over the results for all items, in the order of the items.

        Up to `threads` results are computed at a time. Iterating blocks the calling thread. The
        iterator raises the first exception in place of its result.
        """
        ...

    def start_process(self, module: str) -> ChildProcess:
        """Run the module's `main()` in a child process that ends when this process ends.

        Raises:
            OSError: the child process cannot be started.
        """
        ...

    async def close(self) -> None:
        """Wait for all work, including what `done` callbacks submit; then accept no more."""
        ...


def call(
    executor: Executor,
    function: Callable[[], ResultT],
    pool: Pool = Pool.GENERAL,
    loop: asyncio.AbstractEventLoop | None = None,
) -> asyncio.Future[ResultT]:
    """Run `function()` in the executor; the future has its result or exception.

    Call it on the thread of the loop, by default the running loop. Cancelling the future does not
    stop the function.
    """
    loop = loop or asyncio.get_running_loop()
    future: asyncio.Future[ResultT] = loop.create_future()
    results: list[ResultT] = []

    def done(error: BaseException | None) -> None:
        if future.done():  # cancelled
            return
        if error is None:
            future.set_result(results[0])
        else:
            future.set_exception(error)

    executor.submit(lambda: results.append(function()), done, pool)
    return future


class ThreadExecutor:
    """An `Executor` that starts threads when they are needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pools: dict[Pool, ThreadPoolExecutor] = {}
        self._running: dict[Future[object], None] = {}

    def submit(self, work: Work, done: Done, pool: Pool = Pool.DISK) -> None:
        """See `Executor`."""
        threads = self._pools.get(pool)
        if threads is None:
            threads = ThreadPoolExecutor(THREADS[pool], f"odradek-{pool.value}")
            self._pools[pool] = threads
        future = threads.submit(work)
        self._running[future] = None
        future.add_done_callback(
            lambda ended: self._loop.call_soon_threadsafe(self._finish, ended, done)
        )

    def _finish(self, future: Future[object], done: Done) -> None:
        del self._running[future]
        done(future.exception())

    def map(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], threads: int
    ) -> Iterator[ResultT]:
        """See `Executor`. The threads belong to this call."""
        if threads <= 1:
            yield from map(function, items)
            return
        with ThreadPoolExecutor(threads, "odradek-map") as pool:
            yield from pool.map(function, items)

    def start_process(self, module: str) -> ChildProcess:
        """See `Executor`."""
        return PipedProcess(module)

    async def close(self) -> None:
        """See `Executor`."""
        while self._running:
            running = [asyncio.wrap_future(future) for future in self._running]
            await asyncio.gather(*running, return_exceptions=True)
            await asyncio.sleep(0)
        for pool in self._pools.values():
            pool.shutdown()


class InlineExecutor:
    """An `Executor` that runs all work at once on the calling thread."""

    def submit(self, work: Work, done: Done, pool: Pool = Pool.DISK) -> None:
        """See `Executor`."""
        error: BaseException | None = None
        try:
            work()
        except Exception as raised:  # noqa: BLE001  reported, whatever it is
            error = raised
        done(error)

    def map(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], threads: int
    ) -> Iterator[ResultT]:
        """See `Executor`."""
        return map(function, items)

    def start_process(self, module: str) -> ChildProcess:
        """See `Executor`."""
        return PipedProcess(module)

    async def close(self) -> None:
        """See `Executor`."""
