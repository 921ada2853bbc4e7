"""Threads and child processes, as an argument.

Everything that serves clients runs on the thread of one event loop. What would hold it up (syncs,
cold reads, recovery, snapshots, computations) is given to an `Executor`, and so is what needs a
process of its own. `ThreadExecutor` has threads; a simulation runs the same work on the loop's
thread at a time of its choice; `InlineExecutor` runs it at once, for tools and tests that have no
loop.

Each work reports its end exactly once, with the exception that it raised, whatever its class: who
waits for it never waits for ever.
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
"""Is given the exception that the work raised, or None."""

Lock = threading.Lock
"""Guards what the works of an executor share; never held while a lock of another kind is taken."""


class Pool(Enum):
    """Threads for one kind of work: the works of one pool never wait for those of another."""

    DISK = "disk"
    """Syncs of partitions, cold reads, checkpoints, removals."""
    METADATA = "metadata"
    """Syncs of the metadata log, one after the other."""
    SNAPSHOT = "snapshot"
    """Snapshots of the metadata, one after the other."""
    GENERAL = "general"
    """Loading of logs and coordinators, computations."""


THREADS = {Pool.DISK: 4, Pool.METADATA: 1, Pool.SNAPSHOT: 1, Pool.GENERAL: 4}
"""How many works of a pool run at the same time."""


class Executor(Protocol):
    """See the module."""

    def submit(self, work: Work, done: Done, pool: Pool = Pool.DISK) -> None:
        """Run `work()` off the loop's thread, then `done(error)` on it.

        Called on the loop's thread. Works of a pool begin in the order in which they were
        submitted.
        """
        ...

    def map(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], threads: int
    ) -> Iterator[ResultT]:
        """The results for all items, in their order; up to `threads` are computed at a time.

        Blocks the calling thread while it is iterated over. The first exception is raised when
        its turn comes.
        """
        ...

    def start_process(self, module: str) -> ChildProcess:
        """Run the module's `main()` in a child process that ends with this one.

        Raises:
            OSError: it cannot be started.
        """
        ...

    async def close(self) -> None:
        """Wait for all works, and for those that their ends submit; nothing is submitted after."""
        ...


def call(
    executor: Executor,
    function: Callable[[], ResultT],
    pool: Pool = Pool.GENERAL,
    loop: asyncio.AbstractEventLoop | None = None,
) -> asyncio.Future[ResultT]:
    """Run `function()` by the executor; the future has its result or its exception.

    Called on the thread of the loop, which is the running one by default. Cancelling the future
    does not stop the function.
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
    """An `Executor` with threads, which are started when they are needed."""

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
        """See `Executor`. The threads are those of this call."""
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
    """An `Executor` that does everything at once on the calling thread."""

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
