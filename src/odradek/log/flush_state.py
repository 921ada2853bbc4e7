"""Tracks which part of a log survives a crash of the machine, and flushes the log.

A flush covers the segments from the offset in the recovery point checkpoint on. It makes these
files and directory entries durable:

- the `.log` files and the transaction indexes,
- the other indexes, except the indexes of the active segment,
- the producer snapshots,
- the leader epochs, if they have changed,
- the directory entries, if files were created, renamed or deleted.

Then two offsets move up:

- `recovery_point`: all records below this offset survive a crash.
- `index_recovery_point`: the indexes of all segments below this offset survive a crash. This is the
  base offset of the first segment whose indexes may be lost.

The checkpoint has the lower of the two offsets, and recovery does not check files before it. The
second offset is needed because a flush omits the indexes of the active segment, which recovery
always rebuilds. If the log rolls after the flush, this segment is inactive, and its records are
below the recovery point, but its indexes may be lost in a crash.

Flushes of one log may overlap, and may run in another order than they were begun. An example is a
flush that serves several waiting appends, and the flush after a roll. Therefore a flush also does
the work of earlier flushes that have not completed. A flush does nothing if a later flush has
already run.

A truncation is a flush, too. The files are cut on the thread of the flush, and then flushed.
Nothing is appended before the truncation is done. Otherwise, after a crash, the file might contain
the new records, followed by removed records. Whole segments are removed durably before the last
remaining segment is shortened. Therefore a crash between the two steps leaves a log without gaps.
A flush that is begun during a truncation cuts the files, too, because it may run first. But files
are cut only once: this flush may also run last, when new records have been appended.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from odradek.env.executor import Lock
from odradek.env.file_system import READ_ONLY, FileSystem, replace_file
from odradek.log import names
from odradek.log.checkpoints import leader_epochs_text
from odradek.log.descriptors import OpenFile
from odradek.log.errors import DiskFull, LogDirectoryOffline, is_for_descriptors
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log_segments import LogSegments
from odradek.log.partition_directory import PartitionDirectory
from odradek.log.producer_state_manager import ProducerStateManager
from odradek.log.segment import Cut

NEVER = 2**63
_LONG_MAX = 2**63 - 1

Refusal = DiskFull | LogDirectoryOffline
Truncated = Callable[[Refusal | None], None]
"""Called on the event loop's thread at the end of a truncation. The argument is None if the
truncation survives a crash; otherwise it is the error."""


class Cuts:
    """The files that a truncation shortens. The lock of the `FlushState` is held during `run`."""

    __slots__ = ("_directory", "_files", "_is_done")

    def __init__(self, directory: PartitionDirectory, files: Sequence[Cut]) -> None:
        self._directory = directory
        self._files = files
        self._is_done = False

    def run(self) -> None:
        """Shorten the files, unless this was done. Before that, make the removal of later segments
        durable.

        Raises:
            OSError: the device failed.
        """
        if self._is_done:
            return
        file_system = self._directory.storage.file_system
        file_system.sync_directory(self._directory.path)
        for file, length in self._files:
            file_system.truncate(file.descriptor, length)
        self._is_done = True


class FlushWork:
    """A flush of one log.

    Call `run` on any thread. Then call `complete` or `failed` on the event loop's thread.
    """

    __slots__ = (
        "_cuts",
        "_directory",
        "_duration_us",
        "_epochs",
        "_file_system",
        "_files",
        "_generation",
        "_index_recovery_point",
        "_number",
        "_paths",
        "_state",
        "names_of",
        "offset",
    )

    def __init__(
        self,
        state: FlushState,
        directory: PartitionDirectory,
        offset: int,
        *,
        number: int,
        generation: int,
        index_recovery_point: int,
        files: Sequence[OpenFile],
        paths: Sequence[str],
        epochs: bytes | None,
        names_of: Sequence[str],
        cuts: Cuts | None,
    ) -> None:
        self.offset = offset
        """All records below this offset survive a crash after the flush."""
        self._state = state
        self._directory = directory
        self._file_system: FileSystem = directory.storage.file_system
        self._number = number
        self._generation = generation
        self._index_recovery_point = index_recovery_point
        self._files = files
        self._paths = paths
        self._epochs = epochs
        self.names_of = names_of
        """Directories that the flush also flushes, because names in them have changed."""
        self._cuts = cuts
        self._duration_us = -1
        """How long the flush took; -1 if another flush has done it."""

    @property
    def has_epochs(self) -> bool:
        """Whether the flush writes the checkpoint of leader epochs."""
        return self._epochs is not None

    def run(self) -> None:
        """Flush the files. This method is thread-safe.

        Raises:
            OSError: the device failed, and its content is uncertain. ENOSPC (no room for the
                leader epochs), EMFILE: the flush can be repeated.
        """
        self._state.run_in_turn(self._number, self._run)

    def _run(self) -> None:
        file_system = self._file_system
        clock = self._directory.storage.clock
        began_ns = clock.monotonic_ns()
        try:
            if self._cuts is not None:
                self._cuts.run()
            self._sync()
            for path in self.names_of:
                file_system.sync_directory(path)
        except OSError as error:
            if is_for_descriptors(error):
                raise  # no fsync has failed
            # After a failed fsync the kernel may drop the data that was not written.
            raise OSError(errno.EIO, f"a flush failed: {error}") from error
        if self._epochs is not None and not self._directory.is_deleted:
            path = self._directory.file(names.LEADER_EPOCH_CHECKPOINT)
            replace_file(file_system, path, self._epochs)
        self._duration_us = (clock.monotonic_ns() - began_ns) // 1000

    def _sync(self) -> None:
        file_system = self._file_system
        for file in self._files:
            file_system.fdatasync(file.descriptor)
        for path in self._paths:
            try:
                descriptor = file_system.open(path, READ_ONLY)
            except FileNotFoundError:
                continue  # the file was never created, or its segment was deleted in the meantime
            try:
                file_system.fdatasync(descriptor)
            finally:
                file_system.close(descriptor)

    def complete(self) -> None:
        """Move up the recovery point, unless the log was truncated since the flush was begun."""
        if self._duration_us >= 0:
            self._directory.storage.flush_times.add(self._duration_us)
        self._state.on_completed(self, self._generation, self._index_recovery_point)

    def failed(self, error: BaseException) -> Refusal:
        """Handle the error that `run` of this or of another flush raised.

        Return the exception to raise. If the disk is only full, the recovery point does not move.
        Otherwise the log directory goes offline.
        """
        self._state.on_failed(self)
        return self._directory.refuse("flush", error)


class _Truncation:
    """A truncation that would not survive a crash yet."""

    __slots__ = ("_callback", "_remaining", "cuts", "end_offset", "work")

    def __init__(
        self, end_offset: int, cuts: Cuts | None, work: FlushWork, callback: Truncated
    ) -> None:
        self.end_offset = end_offset
        self.cuts = cuts
        self.work: FlushWork | None = work
        """The flush; None after it has failed."""
        self._callback: Truncated | None = callback
        self._remaining = 2
        """Number of steps to do. The steps are the flush and the checkpoint of recovery points."""

    def step_done(self) -> bool:
        """Record that one of the two steps is done. Return whether both are done."""
        self._remaining -= 1
        return not self._remaining

    def report(self, refusal: Refusal | None) -> None:
        """Call the callback, which is called only once, with the result of the truncation."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback(refusal)

    def set_work(self, work: FlushWork | None) -> None:
        """Set the flush of a new attempt, or None after a failure."""
        self.work = work


class FlushState:
    """The flushes of one log. Call all methods except `run_in_turn` on the event loop's thread."""

    __slots__ = (
        "_begun",
        "_directory",
        "_epochs",
        "_interval",
        "_is_in_background",
        "_lock",
        "_producers",
        "_run",
        "_segments",
        "_truncation",
        "_under_way",
        "_wanted_offset",
        "due_offset",
        "generation",
        "index_recovery_point",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(
        self,
        directory: PartitionDirectory,
        segments: LogSegments,
        epochs: LeaderEpochs,
        producers: ProducerStateManager,
        *,
        recovery_point: int,
        index_recovery_point: int,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._epochs = epochs
        self._producers = producers
        self.recovery_point = recovery_point
        """All records below this offset survive a crash of the machine."""
        self.index_recovery_point = index_recovery_point
        """The indexes of all segments below this offset survive a crash of the machine."""
        self.generation = 0
        """Incremented by each truncation. A flush that was begun in an earlier generation does not
        move the recovery point."""
        self.last_flush_ms = directory.storage.clock.now_ms()
        self.due_offset = NEVER
        """A flush is due when the log end offset exceeds this offset."""
        self._interval = NEVER
        self._lock = Lock()
        """Held while a flush runs."""
        self._begun = 0
        """The number of the flush that was begun last. The first flush has number 1."""
        self._run = 0
        """The highest number of a flush that has run."""
        self._under_way: list[FlushWork] = []
        """Flushes that have neither completed nor failed."""
        self._is_in_background = False
        self._wanted_offset = 0
        """The log end offset with which `flush_in_background` was called last."""
        self._truncation: _Truncation | None = None

    @property
    def checkpoint_offset(self) -> int:
        """The offset at which recovery begins after a crash."""
        return min(self.recovery_point, self.index_recovery_point)

    def set_interval(self, messages: int) -> None:
        """Set the number of records after which the log is flushed (`flush.messages`).

        For 1, this class does nothing, because `group_commit` flushes each append.
        """
        self._interval = messages if 1 < messages < _LONG_MAX else NEVER
        self._set_due_offset()

    def _set_due_offset(self) -> None:
        is_never = self._interval == NEVER
        self.due_offset = NEVER if is_never else self.recovery_point + self._interval - 1

    # -- flushes --------------------------------------------------------------------------------

    def flush_work(self, end_offset: int) -> FlushWork | None:
        """Return a flush of all current records; None if they are flushed already.

        Raises:
            DiskFull: too many files are open.
            LogDirectoryOffline: the disk failed.
        """
        if self._directory.log_directory.is_offline or (
            end_offset <= self.recovery_point
            and self._directory.is_synced
            and self._epochs.to_write(end_offset) is None
        ):
            return None
        try:
            return self._begin(end_offset)
        except OSError as error:
            raise self._directory.refuse("flush", error) from error

    def last_work(self, end_offset: int) -> FlushWork | None:
        """Write data that is only in memory, and return the last flush before the log is closed.

        Return None if there is nothing to flush, for example because the log has not changed since
        it was loaded.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        if self._directory.log_directory.is_offline:
            return None
        self.finish_truncation()
        active = self._segments.active
        if active.offset_index is None:
            return self.flush_work(end_offset)
        try:
            active.on_become_inactive()
            self._producers.take_snapshot(end_offset)
            return self._begin(end_offset, is_closing=True)
        except OSError as error:
            raise self._directory.refuse("close", error) from error

    def _begin(
        self, end_offset: int, *, is_closing: bool = False, cuts: Cuts | None = None
    ) -> FlushWork:
        """Collect the files to flush, so that `run` of the flush does not access the log.

        `is_closing` says that the log will be closed. Then the indexes of the active segment are
        flushed, too.

        Raises:
            OSError: a file cannot be opened or written.
        """
        for earlier in self._under_way:
            self._put_back(earlier)
        if self._truncation is not None:
            cuts = self._truncation.cuts
        start = self.checkpoint_offset
        active = self._segments.active
        files, paths = [], []
        for segment in self._segments.since(start):
            files.append(segment.opened())
            paths.append(segment.path(names.TRANSACTION_INDEX))
            if is_closing or cuts is not None or segment is not active:
                paths.append(segment.path(names.OFFSET_INDEX))
                paths.append(segment.path(names.TIME_INDEX))
        producers = self._producers
        paths += [producers.snapshot_path(each) for each in producers.snapshots if each >= start]
        epochs = self._epochs.to_write(end_offset)
        if epochs is not None:
            self._epochs.on_written(epochs)
        names_of = self._directory.take_unsynced()
        if self._directory.path in names_of:
            paths.append(self._directory.file(names.PARTITION_METADATA))
        assert end_offset >= self.recovery_point, "what is flushed is in the log"
        self._begun += 1
        work = FlushWork(
            self,
            self._directory,
            end_offset,
            number=self._begun,
            generation=self.generation,
            index_recovery_point=end_offset if is_closing else active.base_offset,
            files=files,
            paths=paths,
            epochs=None if epochs is None else leader_epochs_text(epochs),
            names_of=names_of,
            cuts=cuts,
        )
        self._under_way.append(work)
        return work

    def _put_back(self, work: FlushWork) -> None:
        """Let the next flush handle the names and epochs of a flush that has not completed."""
        self._directory.put_back_unsynced(work.names_of)
        if work.has_epochs:
            self._epochs.on_lost()

    def run_in_turn(self, number: int, run: Callable[[], None]) -> None:
        """Run a flush, unless a flush that was begun later has run. This method is thread-safe.

        Raises:
            OSError: `run` raised the error.
        """
        with self._lock:
            if self._run < number:
                run()
                self._run = number

    def on_completed(self, work: FlushWork, generation: int, index_recovery_point: int) -> None:
        """See `FlushWork.complete`."""
        self._under_way.remove(work)
        if generation == self.generation:
            self.recovery_point = max(self.recovery_point, work.offset)
            self.index_recovery_point = max(self.index_recovery_point, index_recovery_point)
        self.last_flush_ms = self._directory.storage.clock.now_ms()
        self._set_due_offset()

    def on_failed(self, work: FlushWork) -> None:
        """See `FlushWork.failed`."""
        self._under_way.remove(work)
        self._put_back(work)

    def flush_in_background(self, end_offset: int) -> None:
        """Begin a flush in the background.

        If a flush is running in the background, another flush follows it if necessary.
        """
        self._wanted_offset = end_offset
        if self._is_in_background:
            return
        try:
            work = self.flush_work(end_offset)
        except DiskFull:
            return  # the records stay in the log; the next append or tick tries again
        if work is None:
            return
        self._is_in_background = True

        def done(error: BaseException | None) -> None:
            self._is_in_background = False
            if self._directory.is_deleted:
                return
            if error is not None:
                work.failed(error)
                return
            work.complete()
            if self._wanted_offset > self.due_offset:
                self.flush_in_background(self._wanted_offset)

        self._directory.storage.background(work.run, done)

    def flush(self, end_offset: int) -> None:
        """Flush the log on this thread.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        work = self.flush_work(end_offset)
        if work is not None:
            run_now(work)

    def close(self, end_offset: int) -> None:
        """Write data that is only in memory, and flush the log, on this thread.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        work = self.last_work(end_offset)
        if work is not None:
            run_now(work)

    @property
    def is_idle(self) -> bool:
        """Whether no flush and no truncation uses the paths of the files."""
        return not self._under_way and not self._is_in_background and self._truncation is None

    def on_replaced(self, recovery_point: int) -> None:
        """Lower the recovery point to that of the replaced log, which may be found after a crash.

        The next flush makes the new names durable.
        """
        self.recovery_point = min(self.recovery_point, recovery_point)
        self._set_due_offset()

    # -- truncation -----------------------------------------------------------------------------

    def on_records_dropped(self) -> None:
        """Begin a new generation before a truncation. Running flushes belong to older
        generations."""
        self.generation += 1

    @property
    def is_truncating(self) -> bool:
        """Whether a crash could undo the last truncation."""
        return self._truncation is not None

    def truncate(self, end_offset: int, files: Sequence[Cut], truncated: Truncated) -> None:
        """Cut and flush files in the background, then call `truncated`.

        The caller has already set the log end offset in memory to `end_offset`.

        Raises:
            OSError: a file cannot be opened or written.
        """
        base_offset = self._segments.active.base_offset
        assert base_offset <= end_offset, "a truncated log ends in its last segment"
        self.recovery_point = min(self.recovery_point, base_offset)
        self.index_recovery_point = min(self.index_recovery_point, base_offset)
        self._wanted_offset = min(self._wanted_offset, end_offset)
        self._directory.on_names_changed()
        cuts = Cuts(self._directory, files) if files else None
        work = self._begin(end_offset, cuts=cuts)
        truncation = _Truncation(end_offset, cuts, work, truncated)
        self._truncation = truncation
        storage = self._directory.storage

        def step_done(error: BaseException | None) -> None:
            if self._truncation is not truncation or self._directory.is_deleted:
                return  # `finish_truncation` has finished it in the meantime
            if error is not None:
                self._on_truncation_failed(truncation, error)
            elif truncation.step_done():
                self._on_truncated(truncation)

        storage.background(work.run, step_done)
        storage.lower_recovery_points(self._directory.log_directory, step_done)

    def finish_truncation(self) -> None:
        """Finish a running truncation on this thread, so that it survives a crash.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        truncation = self._truncation
        if truncation is None:
            return
        try:
            work = truncation.work or self._begin(truncation.end_offset)
            truncation.set_work(work)
            work.run()
            self._directory.storage.write_recovery_points(self._directory.log_directory)
        except OSError as error:
            raise self._on_truncation_failed(truncation, error) from error
        self._on_truncated(truncation)

    def _on_truncated(self, truncation: _Truncation) -> None:
        assert truncation.work is not None
        self._truncation = None
        truncation.work.complete()
        truncation.report(None)

    def _on_truncation_failed(self, truncation: _Truncation, error: BaseException) -> Refusal:
        """Return the exception to raise. If the disk is only full, the next append tries again."""
        if truncation.work is None:
            return self._directory.refuse("truncate", error)
        refusal = truncation.work.failed(error)
        truncation.set_work(None)
        truncation.report(refusal)
        return refusal


def run_now(work: FlushWork) -> None:
    """Run a flush on this thread, and process its result.

    Raises:
        DiskFull, LogDirectoryOffline: the disk is full or failed.
    """
    try:
        work.run()
    except OSError as error:
        raise work.failed(error) from error
    work.complete()
