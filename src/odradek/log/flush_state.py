"""Tracks which part of a log survives a crash of the machine, and runs its flushes.

A flush syncs the `.log` of the segments from the recovery point on; of closed ones also the indexes
and the snapshots, because recovery does not check files before the recovery point; the leader
epochs; and the directory, if names in it changed. Then the recovery point moves up.

The indexes of the active segment are not synced: it is always recovered. But the segment may be
closed right after, and then the recovery point at its end would be too high. So there is a second
offset, `sealed_offset`: the base offset of the first segment whose indexes may be lost. The
checkpoint has the lower of both.

Flushes of one log may overlap, and may run in another order than they were begun: for example a
group commit and the flush after a roll. So each flush also does what those before it have not
completed, and a flush that runs after one that was begun later does nothing.

A truncation is a flush, too: the files are cut in its thread, and then synced. Nothing is appended
before that is done: otherwise truncated records might be back after a crash, behind new ones.
Segments are removed durably before the last one is shortened, so that a crash in between leaves a
log without gaps.
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
"""Called on the loop's thread: the truncation survives a crash, or the disk is full or failed."""


class FlushWork:
    """One flush of one log: `run` in any thread, then `complete` or `failed` on the loop's."""

    __slots__ = (
        "_cuts",
        "_directory",
        "_epochs",
        "_file_system",
        "_files",
        "_generation",
        "_number",
        "_paths",
        "_sealed_offset",
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
        sealed_offset: int,
        files: Sequence[OpenFile],
        paths: Sequence[str],
        epochs: bytes | None,
        names_of: Sequence[str],
        cuts: Sequence[Cut],
    ) -> None:
        self.offset = offset
        """All records below this offset will survive a crash."""
        self._state = state
        self._directory = directory
        self._file_system: FileSystem = directory.storage.file_system
        self._number = number
        self._generation = generation
        self._sealed_offset = sealed_offset
        self._files = files
        self._paths = paths
        self._epochs = epochs
        self.names_of = names_of
        """Directories that it syncs, because names in them changed."""
        self._cuts = cuts

    @property
    def has_epochs(self) -> bool:
        """Whether it writes the checkpoint of leader epochs."""
        return self._epochs is not None

    def run(self) -> None:
        """Sync. Thread-safe.

        Raises:
            OSError: the device failed, and its content is uncertain; or the disk is too full for
                the leader epochs, and nothing is lost.
        """
        self._state.run_in_turn(self._number, self._run)

    def _run(self) -> None:
        file_system = self._file_system
        try:
            if self._cuts:
                self._cut()
            self._sync()
            for path in self.names_of:
                file_system.sync_directory(path)
        except OSError as error:
            if is_for_descriptors(error):
                raise  # the sync was not even tried
            # After any error the kernel may drop the data that was not synced.
            raise OSError(errno.EIO, f"a sync failed: {error}") from error
        if self._epochs is not None and not self._directory.is_deleted:
            path = self._directory.file(names.LEADER_EPOCH_CHECKPOINT)
            replace_file(file_system, path, self._epochs)

    def _cut(self) -> None:
        """Shorten files, after the removal of the segments behind them was synced."""
        file_system = self._file_system
        file_system.sync_directory(self._directory.path)
        for file, length in self._cuts:
            file_system.truncate(file.descriptor, length)

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
        self._state.on_completed(self, self._generation, self._sealed_offset)

    def failed(self, error: BaseException) -> Refusal:
        """The work raised, or was skipped after another one raised; return the exception to raise.

        If the disk is only full, the recovery point does not move. Otherwise the log directory goes
        offline.
        """
        self._state.on_failed(self)
        return self._directory.refuse("flush", error)


class _Truncation:
    """A truncation that does not survive a crash yet."""

    __slots__ = ("_callback", "_remaining", "cuts", "end_offset", "work")

    def __init__(
        self, end_offset: int, cuts: Sequence[Cut], work: FlushWork, callback: Truncated
    ) -> None:
        self.end_offset = end_offset
        self.cuts = cuts
        self.work: FlushWork | None = work
        """None after it has failed."""
        self._callback: Truncated | None = callback
        self._remaining = 2
        """The flush, and the checkpoint of recovery points."""

    def step_done(self) -> bool:
        """One of the two steps is done; return whether it was the last."""
        self._remaining -= 1
        return not self._remaining

    def tell(self, refusal: Refusal | None) -> None:
        """Call `truncated`: the truncation has completed, or has failed for the first time."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback(refusal)

    def set_work(self, work: FlushWork | None) -> None:
        """Set the flush that is retried, or None after a failure."""
        self.work = work


class FlushState:
    """See the module. Everything except `run_in_turn` is called on the loop's thread."""

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
        "last_flush_ms",
        "recovery_point",
        "sealed_offset",
    )

    def __init__(
        self,
        directory: PartitionDirectory,
        segments: LogSegments,
        epochs: LeaderEpochs,
        producers: ProducerStateManager,
        *,
        recovery_point: int,
        sealed_offset: int,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._epochs = epochs
        self._producers = producers
        self.recovery_point = recovery_point
        """All records below this offset survive a crash of the machine."""
        self.sealed_offset = sealed_offset
        """Segments below this offset survive it with their indexes."""
        self.generation = 0
        """Incremented when records are dropped: flushes that were begun before do not count any
        more."""
        self.last_flush_ms = directory.storage.clock.now_ms()
        self.due_offset = NEVER
        """A flush is due when the log end offset exceeds this offset."""
        self._interval = NEVER
        self._lock = Lock()
        """Held while a flush is run."""
        self._begun = 0
        """Flushes are numbered as they are begun."""
        self._run = 0
        """The highest number that was run."""
        self._under_way: list[FlushWork] = []
        """Flushes that have neither completed nor failed."""
        self._is_in_background = False
        self._wanted_offset = 0
        """The highest end of the log that `flush_in_background` was called with."""
        self._truncation: _Truncation | None = None

    @property
    def checkpoint_offset(self) -> int:
        """Where recovery has to begin after a crash."""
        return min(self.recovery_point, self.sealed_offset)

    def set_interval(self, messages: int) -> None:
        """Flush after so many records (`flush.messages`).

        With 1, appends are flushed by group commit instead; see `group_commit`.
        """
        self._interval = messages if 1 < messages < _LONG_MAX else NEVER
        self._set_due_offset()

    def _set_due_offset(self) -> None:
        is_never = self._interval == NEVER
        self.due_offset = NEVER if is_never else self.recovery_point + self._interval - 1

    # -- flushes --------------------------------------------------------------------------------

    def flush_work(self, end_offset: int) -> FlushWork | None:
        """Return the work that makes all current records survive a crash; None if they do already.

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
        """Return the last flush of a log that will be closed; None if there is nothing to do.

        Writes data that is only in memory. There is nothing to do for a log that has not changed
        since it was loaded.

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
            active.seal()
            self._producers.take_snapshot(end_offset)
            return self._begin(end_offset, is_closing=True)
        except OSError as error:
            raise self._directory.refuse("close", error) from error

    def _begin(
        self, end_offset: int, *, is_closing: bool = False, cuts: Sequence[Cut] = ()
    ) -> FlushWork:
        """Collect the files to sync, so that the work's `run` does not access the log.

        `is_closing`: the active segment will not be recovered.

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
            if is_closing or cuts or segment is not active:
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
        self._begun += 1
        work = FlushWork(
            self,
            self._directory,
            end_offset,
            number=self._begun,
            generation=self.generation,
            sealed_offset=end_offset if is_closing else active.base_offset,
            files=files,
            paths=paths,
            epochs=None if epochs is None else leader_epochs_text(epochs),
            names_of=names_of,
            cuts=cuts,
        )
        self._under_way.append(work)
        return work

    def _put_back(self, work: FlushWork) -> None:
        """Return the work's files, which may not be synced, to the next flush."""
        self._directory.put_back_unsynced(work.names_of)
        if work.has_epochs:
            self._epochs.on_lost()

    def run_in_turn(self, number: int, run: Callable[[], None]) -> None:
        """Run a flush, unless one that was begun later has been run. Thread-safe.

        Raises:
            OSError: `run` has.
        """
        with self._lock:
            if self._run < number:
                run()
                self._run = number

    def on_completed(self, work: FlushWork, generation: int, sealed_offset: int) -> None:
        """See `FlushWork.complete`."""
        self._under_way.remove(work)
        if generation == self.generation:
            self.recovery_point = max(self.recovery_point, work.offset)
            self.sealed_offset = max(self.sealed_offset, sealed_offset)
        self.last_flush_ms = self._directory.storage.clock.now_ms()
        self._set_due_offset()

    def on_failed(self, work: FlushWork) -> None:
        """See `FlushWork.failed`."""
        self._under_way.remove(work)
        self._put_back(work)

    def flush_in_background(self, end_offset: int) -> None:
        """Begin a flush unless one is running; in that case begin another after it if necessary."""
        self._wanted_offset = end_offset
        if self._is_in_background:
            return
        try:
            work = self.flush_work(end_offset)
        except DiskFull:
            return  # appended records stay; the next append or tick tries again
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
        """Flush on this thread.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        work = self.flush_work(end_offset)
        if work is not None:
            run_now(work)

    def close(self, end_offset: int) -> None:
        """Write data that is only in memory, and flush, on this thread.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        work = self.last_work(end_offset)
        if work is not None:
            run_now(work)

    # -- truncation -----------------------------------------------------------------------------

    def on_records_dropped(self) -> None:
        """Called before a truncation: running flushes do not move the recovery point any more."""
        self.generation += 1

    @property
    def is_truncating(self) -> bool:
        """Whether a crash may undo the last truncation."""
        return self._truncation is not None

    def truncate(self, end_offset: int, cuts: Sequence[Cut], truncated: Truncated) -> None:
        """Cut files and sync them, in the background; then `truncated` is called.

        The log ends at `end_offset` now, in its active segment.

        Raises:
            OSError: a file cannot be opened or written.
        """
        base_offset = self._segments.active.base_offset
        self.recovery_point = min(self.recovery_point, base_offset)
        self.sealed_offset = min(self.sealed_offset, base_offset)
        self._wanted_offset = min(self._wanted_offset, end_offset)
        self._directory.on_names_changed()
        work = self._begin(end_offset, cuts=cuts)
        truncation = _Truncation(end_offset, cuts, work, truncated)
        self._truncation = truncation
        storage = self._directory.storage

        def step_done(error: BaseException | None) -> None:
            if self._truncation is not truncation or self._directory.is_deleted:
                return  # the loop's thread has finished it meanwhile
            if error is not None:
                self._on_truncation_failed(truncation, error)
            elif truncation.step_done():
                self._on_truncated(truncation)

        storage.background(work.run, step_done)
        storage.lower_recovery_points(self._directory.log_directory, step_done)

    def finish_truncation(self) -> None:
        """Wait for a truncation to survive a crash, on this thread.

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
        truncation.tell(None)

    def _on_truncation_failed(self, truncation: _Truncation, error: BaseException) -> Refusal:
        """If the disk is only full, the next append or flush tries again."""
        if truncation.work is None:
            return self._directory.refuse("truncate", error)
        refusal = truncation.work.failed(error)
        truncation.set_work(None)
        truncation.tell(refusal)
        return refusal


def run_now(work: FlushWork) -> None:
    """Run a flush on this thread, and record its result.

    Raises:
        DiskFull, LogDirectoryOffline: the disk is full or failed.
    """
    try:
        work.run()
    except OSError as error:
        raise work.failed(error) from error
    work.complete()
