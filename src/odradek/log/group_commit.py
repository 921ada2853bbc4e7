"""Group commit. One flush serves all appends that wait for a flush before the response.

The logs of a directory share a disk. While a flush runs, other appends are written, and their
responses wait. The next flush serves all of them. Therefore the number of fsync calls depends on
the speed of the disk and not on the number of requests.

A log may be deleted while a flush waits or runs. If another log has replaced it
(`LogManager.promote_future`), a flush of that log follows. Otherwise there is nothing to flush any
more, and the flush counts as successful.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.log.errors import DiskFull, LogDirectoryOffline
from odradek.log.flush_state import FlushWork
from odradek.log.partition_log import PartitionLog
from odradek.log.storage import Background

Flushed = Callable[[DiskFull | LogDirectoryOffline | None], None]
"""Called on the event loop's thread after a flush. The argument is None if the records are flushed;
otherwise it is the error."""

OnDeleted = Callable[[PartitionLog, Sequence[Flushed]], None]
"""Called with a deleted log, and with the callbacks that wait for a flush of it."""


class GroupCommit:
    """The flushes of the logs of one directory."""

    __slots__ = ("_background", "_is_running", "_on_deleted", "_running", "_waiting")

    def __init__(self, background: Background, on_deleted: OnDeleted) -> None:
        self._background = background
        self._on_deleted = on_deleted
        self._waiting: dict[PartitionLog, list[Flushed]] = {}
        self._running: dict[PartitionLog, tuple[FlushWork, list[Flushed]]] = {}
        self._is_running = False

    def wait(self, log: PartitionLog, offset: int, flushed: Flushed) -> None:
        """Call `flushed` when all records below `offset` are flushed, or the flush has failed."""
        if log.recovery_point >= offset:
            flushed(None)
            return
        running = self._running.get(log)
        if running is not None and running[0].offset >= offset:
            running[1].append(flushed)
            return
        self._waiting.setdefault(log, []).append(flushed)
        if not self._is_running:
            self._run()

    def _run(self) -> None:
        # Callbacks may wait for other flushes. These join the next round, and start no second run.
        self._is_running = True
        while self._waiting and not self._running:
            waiting, self._waiting = self._waiting, {}
            for log, callbacks in waiting.items():
                self._begin(log, callbacks)
        if not self._running:
            self._is_running = False
            return
        works = [(log, work) for log, (work, _) in self._running.items()]
        failures: dict[PartitionLog, OSError] = {}

        def run() -> None:
            for log, work in works:
                try:
                    work.run()
                except OSError as error:
                    failures[log] = error  # the log may have been deleted or replaced meanwhile

        def done(error: BaseException | None) -> None:
            self._is_running = False
            running, self._running = self._running, {}
            for log, (work, callbacks) in running.items():
                failure = error or failures.get(log)
                if failure is None:
                    work.complete()
                    _call(callbacks, None)
                elif log.is_deleted:
                    self._on_deleted(log, callbacks)
                else:
                    _call(callbacks, work.failed(failure))
            if self._waiting and not self._is_running:
                self._run()

        self._background(run, done)

    def _begin(self, log: PartitionLog, callbacks: list[Flushed]) -> None:
        """Make the flush of a log a part of the next run, if there is something to flush."""
        if log.is_deleted:
            self._on_deleted(log, callbacks)
            return
        try:
            log.partition_directory.check_online()
            work = log.flush_work()
        except (DiskFull, LogDirectoryOffline) as error:
            _call(callbacks, error)
            return
        if work is None:
            _call(callbacks, None)
        else:
            self._running[log] = work, callbacks


def _call(callbacks: list[Flushed], error: DiskFull | LogDirectoryOffline | None) -> None:
    for callback in callbacks:
        callback(error)
