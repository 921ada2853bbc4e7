"""Threads for what must not hold up the loop: syncs, cold reads, removals, checkpoints."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future, ThreadPoolExecutor

from odradek.log.storage import Done, Work

log = logging.getLogger("odradek.node")

THREADS = 4


class Background:
    """Runs work in a few threads and tells of its end on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(THREADS, "odradek-disk")
        self._running: set[Future[None]] = set()

    def __call__(self, work: Work, done: Done) -> None:
        """Run `work()` in a thread, then `done(error)` on the loop's; see `odradek.log.storage`."""
        future = self._executor.submit(work)
        self._running.add(future)
        future.add_done_callback(
            lambda ended: self._loop.call_soon_threadsafe(self._finish, ended, done)
        )

    def _finish(self, future: Future[None], done: Done) -> None:
        self._running.discard(future)
        error = future.exception()
        if error is None or isinstance(error, OSError):
            done(error)
        else:
            log.error("work in the background failed", exc_info=error)

    async def close(self) -> None:
        """Wait for all work, and for what its end begins."""
        while self._running:
            running = [asyncio.wrap_future(future) for future in self._running]
            await asyncio.gather(*running, return_exceptions=True)
            await asyncio.sleep(0)
        self._executor.shutdown()
