"""Closes all logs of a directory."""

from __future__ import annotations

from collections.abc import Collection

from odradek.env.executor import Executor
from odradek.log.directory import LogDirectory
from odradek.log.flush_state import FlushWork
from odradek.log.partition_log import PartitionLog

THREADS = 8
"""Number of flushes at the same time. For a disk, concurrent flushes cost little more than one
flush."""
FEW = 16
"""If there are fewer flushes than this, one thread does them."""
STEP = 512
"""Maximum number of logs whose files are open at the same time."""


def close_all(logs: Collection[PartitionLog], directory: LogDirectory, executor: Executor) -> None:
    """Flush several logs at the same time, then close all logs.

    Raises:
        DiskFull, LogDirectoryOffline: the disk is full or failed.
    """
    waiting: list[FlushWork] = []
    for log in logs:
        work = log.last_flush_work()
        if work is not None:
            waiting.append(work)
        if len(waiting) >= STEP:
            _run(waiting, directory, executor)
            waiting = []
    _run(waiting, directory, executor)
    for log in logs:
        log.segments.close_files()


def _run(works: list[FlushWork], directory: LogDirectory, executor: Executor) -> None:
    try:
        for _ in executor.map(FlushWork.run, works, 1 if len(works) < FEW else THREADS):
            pass
    except OSError as error:
        raise directory.refuse("could not flush its logs", error) from error
    for work in works:
        work.complete()
