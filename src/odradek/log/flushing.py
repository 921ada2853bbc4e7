"""What makes a log survive a crash of the machine, and how it is closed.

A flush syncs the `.log` of the segments from the recovery point on; of closed ones also the
indexes and the snapshots, because recovery believes what lies before the place where it begins;
the leader epochs; and the directory, if names in it changed. Then the recovery point moves up.

The indexes of the active segment are not synced: it is always recovered. But it may be closed
right after, and then the recovery point, which lies at its end, would say too much. So there is
a second mark, `sealed_offset`, the base offset of the first segment of which the indexes may be
lost; what goes into the checkpoint is the lower of both.

Flushes of one log may overlap, and be run in another order than they were begun: a group commit
beside the flush after a roll. So each does also what those before it have not completed yet, and
when its turn comes after one that was begun later, nothing is left for it to do.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from odradek.env.executor import Lock
from odradek.env.file_system import READ_ONLY, FileSystem, parent_of, replace_file
from odradek.log import names, snapshots
from odradek.log.checkpoints import leader_epochs_text
from odradek.log.descriptors import OpenFile
from odradek.log.errors import DiskFull, LogDirectoryOffline, is_for_descriptors

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

NEVER = 2**63
_LONG_MAX = 2**63 - 1


class FlushOrder:
    """The flushes of one log, numbered as they are begun."""

    __slots__ = ("begun", "is_in_background", "lock", "run", "under_way")

    def __init__(self) -> None:
        self.lock = Lock()
        """Held while one is run."""
        self.begun = 0
        self.run = 0
        """The highest number that was run."""
        self.under_way: list[FlushWork] = []
        """Those that were neither completed nor have failed."""
        self.is_in_background = False
        """Whether `flush_in_background` has one under way."""


class FlushWork:
    """One flush of one log: `run` in any thread, then `complete` on the loop's."""

    __slots__ = (
        "_directories",
        "_epochs",
        "_file_system",
        "_files",
        "_generation",
        "_log",
        "_number",
        "_order",
        "_paths",
        "_sealed_offset",
        "offset",
    )

    def __init__(self, log: PartitionLog, offset: int, is_last: bool = False) -> None:
        """Collect what is to be synced, so that `run` needs nothing of the log.

        `is_last`: the log is being closed, so that the active segment will not be recovered.

        Raises:
            OSError: a file cannot be opened or written.
        """
        self.offset = offset
        """All before it will survive a crash."""
        self._log = log
        self._generation = log.generation
        self._sealed_offset = offset if is_last else log.active.base_offset
        self._file_system: FileSystem = log.storage.file_system
        self._files: list[OpenFile] = []
        self._paths: list[str] = []
        self._directories: list[str] = []
        self._epochs: bytes | None = None
        self._order = order = log.flushes
        for earlier in order.under_way:
            earlier._put_back()
        first = max(0, log.segment_of(checkpoint_offset(log)))
        for segment in log.segments[first:]:
            self._files.append(segment.file or segment.open_file())
            self._paths.append(segment.path(names.TRANSACTION_INDEX))
            if is_last or segment is not log.active:
                self._paths.append(segment.path(names.OFFSET_INDEX))
                self._paths.append(segment.path(names.TIME_INDEX))
        for snapshot in log.snapshots:
            if snapshot >= checkpoint_offset(log):
                self._paths.append(snapshots.path_of(log.path, snapshot))
        epochs = log.leader_epochs.to_write(log.log_end_offset)
        if epochs is not None:
            self._epochs = leader_epochs_text(epochs)
            log.leader_epochs.on_written(epochs)
        if log.is_unsynced:
            self._paths.append(f"{log.path}/{names.PARTITION_METADATA}")
            self._directories.append(log.path)
            log.is_unsynced = False
        if log.is_new:
            self._directories.append(parent_of(log.path))
            log.is_new = False
        order.under_way.append(self)
        order.begun += 1
        self._number = order.begun

    def _put_back(self) -> None:
        """What it was to do may not have been done: who flushes next does it."""
        log = self._log
        log.is_unsynced = log.is_unsynced or bool(self._directories)
        log.is_new = log.is_new or parent_of(log.path) in self._directories
        if self._epochs is not None:
            log.leader_epochs.on_lost()

    def run(self) -> None:
        """Sync. Thread-safe.

        Raises:
            OSError: the device failed: what is on it is not known any more. Or there was no
                room for the leader epochs, and nothing is lost.
        """
        with self._order.lock:
            if self._order.run < self._number:
                self._run()
                self._order.run = self._number

    def _run(self) -> None:
        file_system = self._file_system
        try:
            self._sync()
            for path in self._directories:
                file_system.sync_directory(path)
        except OSError as error:
            if is_for_descriptors(error):
                raise  # the sync was not even tried
            # Whatever the reason: what was to be synced may be dropped now.
            raise OSError(errno.EIO, f"a sync failed: {error}") from error
        if (
            self._epochs is not None and not self._log.is_deleted
        ):  # else another's file may lie there
            replace_file(
                file_system, f"{self._log.path}/{names.LEADER_EPOCH_CHECKPOINT}", self._epochs
            )

    def _sync(self) -> None:
        file_system = self._file_system
        for file in self._files:
            file_system.fdatasync(file.descriptor)
        for path in self._paths:
            try:
                descriptor = file_system.open(path, READ_ONLY)
            except FileNotFoundError:
                continue  # never made, or its segment was deleted meanwhile
            try:
                file_system.fdatasync(descriptor)
            finally:
                file_system.close(descriptor)

    def complete(self) -> None:
        """The work is done: the recovery point moves up, unless the log was truncated since."""
        log = self._log
        self._order.under_way.remove(self)
        if self._generation == log.generation:
            log.recovery_point = max(log.recovery_point, self.offset)
            log.sealed_offset = max(log.sealed_offset, self._sealed_offset)
        log.last_flush_ms = log.storage.clock.now_ms()
        set_flush_offset(log)

    def failed(self, error: BaseException) -> DiskFull | LogDirectoryOffline:
        """The work raised, or was not begun after another did; the exception to raise.

        If there is only no room, the recovery point stays where it is. Otherwise the log
        directory goes offline.
        """
        self._order.under_way.remove(self)
        self._put_back()
        return self._log.refuse("flush", error)


def checkpoint_offset(log: PartitionLog) -> int:
    """Where recovery has to begin after a crash."""
    return min(log.recovery_point, log.sealed_offset)


def flush_work(log: PartitionLog, offset: int) -> FlushWork | None:
    """The work that flushes the log up to `offset`; None if that was done.

    Raises:
        DiskFull: too many files are open.
        LogDirectoryOffline: the disk failed.
    """
    if log.directory.is_offline or (
        offset <= log.recovery_point
        and not log.is_unsynced
        and log.leader_epochs.to_write(log.log_end_offset) is None
    ):
        return None
    try:
        return FlushWork(log, offset)
    except OSError as error:
        raise log.refuse("flush", error) from error


def set_flush_offset(log: PartitionLog) -> None:
    """After the record of that offset a flush is due (`flush.messages`).

    With an interval of 1 each append waits for a flush of its own choice; see `group_commit`.
    """
    interval = log.config.flush_messages
    log.is_flushed_before_ack = interval == 1
    log.flush_offset = log.recovery_point + interval - 1 if 1 < interval < _LONG_MAX else NEVER


def flush_in_background(log: PartitionLog) -> None:
    """Begin a flush, unless one is under way; that one is followed by another if need be."""
    if log.flushes.is_in_background:
        return
    try:
        work = flush_work(log, log.log_end_offset)
    except DiskFull:
        return  # what was appended stays appended; the next append or tick tries again
    if work is None:
        return
    log.flushes.is_in_background = True

    def done(error: BaseException | None) -> None:
        log.flushes.is_in_background = False
        if log.is_deleted:
            return
        if error is not None:
            work.failed(error)
            return
        work.complete()
        if log.log_end_offset > log.flush_offset:
            flush_in_background(log)

    log.storage.background(work.run, done)


def flush_now(log: PartitionLog) -> None:
    """Flush on this thread.

    Raises:
        DiskFull, LogDirectoryOffline: the disk is full or failed.
    """
    work = flush_work(log, log.log_end_offset)
    if work is not None:
        _run(work)


def _run(work: FlushWork) -> None:
    try:
        work.run()
    except OSError as error:
        raise work.failed(error) from error
    work.complete()


def close(log: PartitionLog) -> None:
    """Flush, leave everything for a quick start, and let go of the files.

    Raises:
        DiskFull, LogDirectoryOffline: the disk is full or failed.
    """
    work = last_work(log)
    if work is not None:
        _run(work)
    for segment in log.segments:
        segment.close_file()


def last_work(log: PartitionLog) -> FlushWork | None:
    """The last flush of a log that is about to be closed; None if there is nothing to do.

    Writes what is only in memory. A log that was not touched since it was loaded costs nothing.

    Raises:
        DiskFull, LogDirectoryOffline: the disk is full or failed.
    """
    if log.directory.is_offline:
        return None
    active = log.active
    try:
        if active.offset_index is None:
            return flush_work(log, log.log_end_offset)
        active.finish_indexes()
        if log.config.preallocate:
            active.trim()
        snapshots.take(log, log.log_end_offset)
        return FlushWork(log, log.log_end_offset, is_last=True)
    except OSError as error:
        raise log.refuse("close", error) from error
