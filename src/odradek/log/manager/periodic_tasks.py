"""Periodic maintenance of the logs, in small steps.

- It applies retention, every `log.retention.check.interval.ms`.
- It flushes logs that have the setting `flush.ms`.
- It writes the checkpoints of recovery points, log start offsets and high watermarks.
- It removes the state of idle producers.
- It removes deleted files and directories after their delay.

A round over all logs is divided into steps of `LOGS_A_STEP` logs, so that ten thousand partitions
do not block the event loop. Checkpoints are written and files are removed in the background.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush

from odradek.env.executor import Done
from odradek.env.file_system import remove_tree
from odradek.log import names
from odradek.log.checkpoint_file import CheckpointFile
from odradek.log.directory import LogDirectory
from odradek.log.errors import DiskFull, LogDirectoryOffline
from odradek.log.logs import Logs
from odradek.log.partition_log import PartitionLog
from odradek.model.topic_partition import TopicPartition

logger = logging.getLogger("odradek.log")

LOGS_A_STEP = 100
STEP_PAUSE_MS = 5
TICK_MAX_MS = 1000
ROOM_WARNING_INTERVAL_MS = 10_000
_NEVER_MS = 2**62


class PeriodicTasks:
    """The periodic maintenance. Use it only on the event loop's thread."""

    def __init__(self, manager: Logs) -> None:
        self._manager = manager
        self._storage = manager.storage
        self._removals: list[tuple[int, int, Sequence[str], bool]] = []
        self._removal_number = 0
        self._rounds: list[Iterator[None]] = []
        self._files: dict[str, CheckpointFile] = {}
        config = manager.config
        start = manager.storage.clock.monotonic_ms() + config.log_initial_task_delay_ms
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        """(next time, interval, function)"""
        for interval_ms, task in (
            (config.log_retention_check_interval_ms, self._begin_retention),
            (
                config.log_flush_offset_checkpoint_interval_ms,
                partial(self._checkpoint, names.RECOVERY_POINT_CHECKPOINT),
            ),
            (
                config.log_flush_start_offset_checkpoint_interval_ms,
                partial(self._checkpoint, names.LOG_START_OFFSET_CHECKPOINT),
            ),
            (
                config.replica_high_watermark_checkpoint_interval_ms,
                partial(self._checkpoint, names.HIGH_WATERMARK_CHECKPOINT),
            ),
            (config.producer_id_expiration_check_interval_ms, self._begin_expiry),
            (TICK_MAX_MS, self._begin_flush),
            (ROOM_WARNING_INTERVAL_MS, self._forget_fullness),
        ):
            self._due.append((start, interval_ms, task))

    def tick(self) -> int:
        """Do the work that is due. Return the milliseconds until the next call."""
        now = self._storage.clock.monotonic_ms()
        for number, (when, interval_ms, task) in enumerate(self._due):
            if when <= now:
                task()
                self._due[number] = (now + interval_ms, interval_ms, task)
        self._remove_what_is_due(now)
        self._step()
        if self._rounds:
            return STEP_PAUSE_MS
        next_due = min(when for when, _, _ in self._due)
        if self._removals:
            next_due = min(next_due, self._removals[0][0])
        return max(0, min(next_due - now, TICK_MAX_MS))

    # -- rounds over all logs -----------------------------------------------------------------

    def _step(self) -> None:
        """Process the next logs of the oldest round."""
        if not self._rounds:
            return
        for _ in range(LOGS_A_STEP):
            try:
                next(self._rounds[0])
            except StopIteration:
                del self._rounds[0]
                return

    def _begin(self, task: Callable[[PartitionLog], object]) -> None:
        def round_over(logs: list[PartitionLog]) -> Iterator[None]:
            for log in logs:
                if not log.is_deleted and not log.directory.is_offline:
                    try:
                        task(log)
                    except LogDirectoryOffline:
                        logger.debug("%s is offline now", log)
                    except DiskFull as error:
                        logger.debug("%s", error.message)
                yield

        self._rounds.append(round_over(list(self._manager)))

    def _begin_retention(self) -> None:
        self._begin(lambda log: log.delete_old_segments())

    def _begin_expiry(self) -> None:
        self._begin(lambda log: log.expire_producers())

    def _begin_flush(self) -> None:
        """Flush logs whose `flush.ms` has passed since their last flush."""
        interval_max = self._manager.config.log_flush_scheduler_interval_ms
        timed = [log for log in self._manager if min(log.config.flush_ms, interval_max) < _NEVER_MS]
        now = self._storage.clock.now_ms()
        for log in timed:
            if now - log.flush_state.last_flush_ms >= log.config.flush_ms:
                log.flush_in_background()

    def _forget_fullness(self) -> None:
        """Let the directories log the next write that is refused because the disk is full."""
        for directory in self._manager.online_directories:
            directory.forget_fullness()

    # -- checkpoints --------------------------------------------------------------------------

    def _checkpoint(self, name: str) -> None:
        """Write a checkpoint of each directory whose offsets have changed."""
        for directory in self._manager.online_directories:
            self._file(directory, name).write_later(self._offsets(directory, name))

    def _offsets(self, directory: LogDirectory, name: str) -> dict[TopicPartition, int]:
        return _CHECKPOINTS[name](self._manager.stored_in(directory))

    def _file(self, directory: LogDirectory, name: str) -> CheckpointFile:
        path = directory.file(name)
        if path not in self._files:
            self._files[path] = CheckpointFile(self._storage, directory, name)
        return self._files[path]

    def checkpoint_soon(self, directory: LogDirectory) -> None:
        """Write all checkpoints of a directory in the background."""
        for name in _CHECKPOINTS:
            self._file(directory, name).write_later(self._offsets(directory, name))

    def write_recovery_points(self, directory: LogDirectory) -> None:
        """Write the recovery points of a directory on this thread.

        Raises:
            OSError: the device failed.
        """
        name = names.RECOVERY_POINT_CHECKPOINT
        self._file(directory, name).write(self._offsets(directory, name))

    def lower_recovery_points(self, directory: LogDirectory, done: Done) -> None:
        """Write the recovery points of a directory in the background, then call `done`."""
        name = names.RECOVERY_POINT_CHECKPOINT
        self._file(directory, name).write_later(self._offsets(directory, name), done)

    def write_checkpoints(self, directory: LogDirectory, logs: Collection[PartitionLog]) -> None:
        """Write all checkpoints of a directory on this thread.

        Raises:
            OSError: the device failed.
        """
        for name, offsets_of in _CHECKPOINTS.items():
            self._file(directory, name).write(offsets_of(logs))

    def forget(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """Remove entries with the name of a new log from the checkpoints.

        Such an entry belongs to a deleted log with the same name.

        Raises:
            OSError: the device failed.
        """
        for name in _CHECKPOINTS:
            self._file(directory, name).forget(partition, partial(self._offsets, directory, name))

    # -- removals -----------------------------------------------------------------------------

    def remove_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files after `delay_ms`."""
        if paths:
            self._add_removal(paths, delay_ms, False)

    def remove_directory_later(self, path: str, delay_ms: int) -> None:
        """Remove a directory and its content after `delay_ms`."""
        self._add_removal((path,), delay_ms, True)

    def _add_removal(self, paths: Sequence[str], delay_ms: int, is_tree: bool) -> None:
        due = self._storage.clock.monotonic_ms() + delay_ms
        self._removal_number += 1
        heappush(self._removals, (due, self._removal_number, paths, is_tree))

    def _remove_what_is_due(self, now: int) -> None:
        trees: list[str] = []
        files: list[str] = []
        while self._removals and self._removals[0][0] <= now:
            _, _, paths, is_tree = heappop(self._removals)
            (trees if is_tree else files).extend(paths)
        if not trees and not files:
            return

        def work() -> None:
            for path in files:
                try:
                    self._storage.file_system.remove(path)
                except FileNotFoundError:
                    continue  # its directory was removed before
            for path in trees:
                remove_tree(self._storage.file_system, path)

        def done(error: BaseException | None) -> None:
            if error is not None:
                logger.error("could not remove files: %s", error)

        self._storage.background(work, done)


def _recovery_points(logs: Collection[PartitionLog]) -> dict[TopicPartition, int]:
    return {log.topic_partition: log.flush_state.checkpoint_offset for log in logs}


def _log_start_offsets(logs: Collection[PartitionLog]) -> dict[TopicPartition, int]:
    """Return the start offsets of logs that start inside a segment.

    The other logs start at the base offset of their first segment. They need no entry.
    """
    return {
        log.topic_partition: log.log_start_offset
        for log in logs
        if log.log_start_offset > log.segments.bases[0]
    }


def _high_watermarks(logs: Collection[PartitionLog]) -> dict[TopicPartition, int]:
    return {log.topic_partition: log.high_watermark for log in logs}


_CHECKPOINTS = {
    names.RECOVERY_POINT_CHECKPOINT: _recovery_points,
    names.LOG_START_OFFSET_CHECKPOINT: _log_start_offsets,
    names.HIGH_WATERMARK_CHECKPOINT: _high_watermarks,
}
"""For each checkpoint file, the function that collects its entries."""
