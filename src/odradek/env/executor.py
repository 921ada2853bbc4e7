"""Runs work on other threads, and starts child processes.

All code that serves clients runs on the thread of one event loop. Work that would block this thread
is submitted to an `Executor`: flushes, reads from the device, recovery, snapshots, computations.
An executor also starts child processes. `ThreadExecutor` uses threads. The executor of a simulation
runs the work on the event loop's thread at a time that the simulation chooses. `InlineExecutor`
runs the work at once on the calling thread, for tools and tests without an event loop.

`done` is called exactly once for each work item, so that no caller waits forever. If the work
raised an exception, `done` receives the exception, whatever its class is. Special case: if the work
in an `InlineExecutor` raises a `KeyboardInterrupt` or a similar exception, `submit` raises it and
does not call `done`.
"""

from __future__ import annotations

import asyncio
import threading
import time
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

LET_OTHERS_RUN_SECONDS = 0.0001

Lock = threading.Lock
"""Protects the state that work items of an executor share. A thread that holds such a lock takes no
lock of another kind."""


class Pool(Enum):
    """A group of threads for one kind of work. Work never waits for work in another pool."""

    DISK = "disk"
    """Flushes of partitions, reads from the device, checkpoints, file removals."""
    METADATA = "metadata"
    """Flushes of the metadata log, one at a time."""
    SNAPSHOT = "snapshot"
    """Snapshots of the metadata, one at a time."""
    GENERAL = "general"
    """Loading of logs, loading of coordinators, computations."""
    VALIDATION = "validation"
    """The validation of batches that decompress to megabytes."""
    CODEC = "codec"
    """The decoding of large requests, and the encoding of their responses."""
    HTTP = "http"
    """Requests to OAuth servers and to Kerberos, which may take as long as their timeouts allow."""
    LOGIN = "login"
    """The steps of clients' logins that read files."""


THREADS = {
    Pool.DISK: 4,
    Pool.METADATA: 1,
    Pool.SNAPSHOT: 1,
    Pool.GENERAL: 4,
    Pool.VALIDATION: 2,
    Pool.CODEC: 1,  # two would compete for the interpreter's lock, and with the event loop
    Pool.HTTP: 2,
    Pool.LOGIN: 2,
}
"""How many work items of a pool run at the same time."""


def let_others_run() -> None:
    """Pause a thread that computes, so that the event loop gets the interpreter's lock soon.

    Without pauses, the event loop waits for 5 ms each time that it needs the lock.
    """
    time.sleep(LET_OTHERS_RUN_SECONDS)


class Executor(Protocol):
    """Runs work that would block the event loop's thread."""

    def submit(self, work: Work, done: Done, pool: Pool = Pool.DISK) -> None:
        """Run `work()` on another thread, then `done(error)` on the event loop's thread.

        Call `submit` on the event loop's thread. Work in a pool starts in the order of submission.
        """
        ...

    def map(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], threads: int
    ) -> Iterator[ResultT]:
        """Return an iterator over the results for all items, in the order of the items.

        Up to `threads` calls run at the same time. The iterator blocks the calling thread until the
        next result is available. If a call raised an exception, the iterator raises it at that
        item.
        """
        ...

    def start_process(self, module: str) -> ChildProcess:
        """Run the module's `main()` in a child process that ends when this process ends.

        Raises:
            OSError: the child process cannot be started.
        """
        ...

    async def close(self) -> None:
        """Wait for all work, also for work that `done` callbacks submit. Submit no work later."""
        ...


def call(
    executor: Executor,
    function: Callable[[], ResultT],
    pool: Pool = Pool.GENERAL,
    loop: asyncio.AbstractEventLoop | None = None,
) -> asyncio.Future[ResultT]:
    """Run `function()` in the executor. Return a future of its result or exception.

    Use `call` on the thread of `loop`, which is the running loop by default. Cancelling the future
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
        """See `Executor`. Each call of `map` starts its own threads."""
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

    def abandon(self) -> None:
        """Drop the work that has not begun, and wait for the work that runs.

        The event loop must have stopped for ever, so that no `done` is called.
        """
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)


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
