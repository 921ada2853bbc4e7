"""Schedules the compaction of a node's logs.

The cleaner examines logs, sends work items to workers, and applies the results. `tick` runs all of
this in small steps on the event loop's thread.

A round examines all compacted logs and finds the logs that are due. Then these logs are cleaned.
The log with the highest dirty ratio is cleaned first. Each log is examined again before it is
cleaned. The next round begins when all these logs have been processed. If none of the logs was
cleaned, the next round begins `log.cleaner.backoff.ms` later.

A job becomes invalid when its log is deleted, truncated, no longer compacted, or offline. Then the
worker gets a stop command, and its further results are not used. Until a job ends, retention
deletes no segments of the log.

All offsets before `CleaningState.first_dirty_offset` are clean. The offset is written to the
`cleaner-offset-checkpoint` of the log directory, but only after the partition's directory was
flushed. Otherwise the old segments might exist again after a crash, and would count as clean.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from odradek.log import names
from odradek.log.checkpoint_file import CheckpointFile
from odradek.log.checkpoints import read_offsets
from odradek.log.cleaner.child import Child
from odradek.log.cleaner.cleaned_files import remove_cleaned
from odradek.log.cleaner.facts import facts_of, work_item
from odradek.log.cleaner.planning import NEVER_CLEANED, Cleanable, find_cleanable
from odradek.log.cleaner.schedule import Schedule
from odradek.log.cleaner.statistics import CleanerStatistics
from odradek.log.cleaner.work import (
    Done,
    Failed,
    Message,
    Replaced,
    WorkItem,
    encode_item,
    encode_rate,
    encode_stop,
)
from odradek.log.directory import LogDirectory
from odradek.log.errors import DamagedFile, LogDirectoryOffline
from odradek.log.logs import Logs
from odradek.log.partition_log import PartitionLog
from odradek.model.topic_partition import TopicPartition

logger = logging.getLogger("odradek.log.cleaner")

StartChild = Callable[[], Child]

LOGS_A_STEP = 100
STEP_PAUSE_MS = 5
POLL_MIN_MS, POLL_MAX_MS = 2, 50
IDLE_MAX_MS = 30_000
"""The cleaner ends a worker that has had no work for this time."""


class Job:
    """A work item and its log."""

    __slots__ = ("generation", "is_stopped", "item", "log", "remaining")

    def __init__(self, log: PartitionLog, item: WorkItem) -> None:
        self.log = log
        self.item = item
        self.generation = log.flush_state.generation
        self.remaining = [base for base, _ in item.segments]
        """Base offsets of segments that were not replaced yet, oldest first."""
        self.is_stopped = False

    def stop(self) -> None:
        """Record that the worker was sent a stop command."""
        self.is_stopped = True

    @property
    def is_valid(self) -> bool:
        """Whether the log still matches the work item."""
        log = self.log
        return (
            not log.is_deleted
            and not log.directory.is_offline
            and log.flush_state.generation == self.generation
            and log.config.is_compacted
        )


class Slot:
    """A place for one worker. There are `log.cleaner.threads` slots."""

    __slots__ = ("child", "idle_since_ms", "job")

    def __init__(self) -> None:
        self.child: Child | None = None
        self.job: Job | None = None
        self.idle_since_ms = 0

    def start(self, child: Child) -> None:
        """Record that a worker was started."""
        self.child = child

    def end(self) -> None:
        """Record that the worker has ended."""
        self.child = None

    def begin(self, job: Job) -> None:
        """Record that the worker was sent a work item."""
        self.job = job

    def finish(self) -> None:
        """Record that the work item has ended."""
        self.job = None

    def idle_from(self, now_ms: int) -> None:
        """Record that the worker has had no work since `now_ms`."""
        self.idle_since_ms = now_ms


class LogCleaner:
    """The cleaner of a node. `LogManager` creates it. `start_child` starts a worker process."""

    def __init__(self, manager: Logs, start_child: StartChild) -> None:
        self._manager = manager
        self._start_child = start_child
        self._schedule = Schedule()
        self._slots: list[Slot] = []
        self._look: Iterator[None] | None = None
        self._next_look_ms = 0
        self._poll_ms = POLL_MIN_MS
        self._number = 0
        self._has_cleaned = False
        self._rate = 0.0
        self._unwritten: dict[LogDirectory, None] = {}
        self._files: dict[str, CheckpointFile] = {}
        self.statistics = CleanerStatistics(manager.storage.clock.now_ms())

    # -- start and stop
    # ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the checkpoints. Call `start` after the logs were loaded.

        If a checkpoint cannot be used, all offsets of its logs count as dirty.
        """
        for directory in self._manager.online_directories:
            path = directory.file(names.CLEANER_CHECKPOINT)
            try:
                offsets = read_offsets(self._manager.storage.file_system, path)
            except DamagedFile as error:
                logger.error("cannot read which parts of the logs are compacted: %s", error)
                continue
            except OSError as error:
                directory.fail("could not read a checkpoint", error)
                continue
            for log in self._manager.logs_in(directory):
                log.cleaning.cleaned_to(offsets.get(log.topic_partition, NEVER_CLEANED))

    def stop(self) -> None:
        """End the workers. Unfinished work begins again after the next start."""
        for slot in self._slots:
            if slot.child is not None:
                slot.child.kill()
                slot.end()
            if slot.job is not None:
                self._give_up(slot.job)
                slot.finish()

    @property
    def uncleanable(self) -> dict[str, int]:
        """The number of logs in each log directory that cannot be cleaned."""
        counts = dict.fromkeys((each.path for each in self._manager.directories), 0)
        for path in list(self._schedule.uncleanable.values()):
            counts[path] = counts.get(path, 0) + 1
        return counts

    def tick(self) -> int:
        """Do the work that is due. Return the milliseconds until the next call."""
        now_ms = self._manager.storage.clock.monotonic_ms()
        self._fit_slots()
        heard = False
        for slot in self._slots:
            heard |= self._serve(slot, now_ms)
        self._go_on_looking(now_ms)
        for slot in self._slots:
            if slot.job is None and len(self._schedule):
                self._give_work(slot, now_ms)
        self._share_rate()
        self._write_checkpoints()
        if any(slot.job is not None for slot in self._slots):
            self._poll_ms = POLL_MIN_MS if heard else min(POLL_MAX_MS, self._poll_ms * 2)
            return self._poll_ms
        if self._look is not None or len(self._schedule):
            return STEP_PAUSE_MS
        return max(0, self._next_look_ms - now_ms)

    def _fit_slots(self) -> None:
        """Adjust the slots to `log.cleaner.threads`. Keep a busy slot until its work has ended."""
        wanted = self._manager.config.log_cleaner_threads
        while len(self._slots) < wanted:
            self._slots.append(Slot())
        for slot in self._slots[wanted:]:
            if slot.job is None:
                if slot.child is not None:
                    slot.child.kill()
                self._slots.remove(slot)

    # -- examining ------------------------------------------------------------------------------

    def _go_on_looking(self, now_ms: int) -> None:
        if self._look is None:
            if len(self._schedule) or (now_ms < self._next_look_ms and not self._has_cleaned):
                return
            self._look = self._looking()
        for _ in range(LOGS_A_STEP):
            if next(self._look, self) is self:
                self._look = None
                self._has_cleaned = False
                self._next_look_ms = now_ms + self._manager.config.log_cleaner_backoff_ms
                return

    def _looking(self) -> Iterator[None]:
        manager = self._manager
        self._schedule.begin()
        self._schedule.keep(lambda partition: manager.get(partition) is not None)
        dirtiest = 0.0
        for log in list(manager):
            if log.config.is_compacted and not log.is_deleted and not log.cleaning.is_under_way:
                cleanable = self._examine(log)
                if cleanable is not None:
                    dirtiest = max(dirtiest, cleanable.dirty_ratio)
                    if cleanable.is_due(log.config.min_cleanable_dirty_ratio):
                        self._schedule.offer(log.topic_partition, cleanable.dirty_ratio)
            yield
        self.statistics.looked(manager.storage.clock.now_ms(), dirtiest)

    def _examine(self, log: PartitionLog) -> Cleanable | None:
        """Return the clean and the dirty part of a log; None if the log cannot be cleaned."""
        if log.directory.is_offline or not self._schedule.is_open(log.topic_partition):
            return None
        try:
            cleanable = find_cleanable(
                facts_of(log), log.partition_directory.storage.clock.now_ms()
            )
        except OSError as error:
            log.partition_directory.fail("look for what to compact in", error)
            return None
        except DamagedFile as error:
            self._cannot(log, str(error))
            return None
        if cleanable.was_reset:
            if not log.config.is_deleted:
                logger.warning(
                    "%s was compacted up to offset %d, which is not in the log; all is dirty now",
                    log.topic_partition,
                    log.cleaning.first_dirty_offset,
                )
            log.cleaning.cleaned_to(cleanable.first_dirty_offset)
            self._unwritten[log.directory] = None
        return cleanable

    def _cannot(self, log: PartitionLog, reason: str) -> None:
        logger.error("%s is not compacted any more: %s", log.topic_partition, reason)
        self._schedule.failed(log.topic_partition, log.directory.path)

    # -- workers ------------------------------------------------------------------------------

    def _next(self) -> tuple[PartitionLog, Cleanable] | None:
        """Return the log with the highest dirty ratio that is still due; None if there is none.

        If the part to clean is not flushed yet, begin a flush and skip the log.
        """
        while (partition := self._schedule.take()) is not None:
            log = self._manager.get(partition)
            if log is None or log.cleaning.is_under_way or not log.config.is_compacted:
                continue
            cleanable = self._examine(log)
            if cleanable is not None and cleanable.is_due(log.config.min_cleanable_dirty_ratio):
                if log.recovery_point >= cleanable.end_offset:
                    return log, cleanable
                self._flush(log)
        return None

    def _flush(self, log: PartitionLog) -> None:
        """Begin a flush. The log is cleaned in a later round.

        Otherwise a record that is not durable could replace an older record that is durable. After
        a crash, both would be lost.
        """
        try:
            log.flush_in_background()
        except LogDirectoryOffline:
            logger.debug("%s is offline now", log)

    def _give_work(self, slot: Slot, now_ms: int) -> None:
        found = self._next()
        if found is None:
            return
        log, cleanable = found
        child = slot.child
        if child is None or not child.is_alive:
            try:
                child = self._start_child()
            except OSError as error:
                logger.error("could not start a process for compaction: %s", error)
                self._schedule.begin()
                self._next_look_ms = now_ms + self._manager.config.log_cleaner_backoff_ms
                self._has_cleaned = False
                return
            slot.start(child)
        self._number += 1
        item = work_item(log, cleanable, self._manager.config, self._number, self._share())
        slot.begin(Job(log, item))
        log.cleaning.begin()
        self.statistics.begun(cleanable.overdue_ms)
        child.send(encode_item(item))

    def _serve(self, slot: Slot, now_ms: int) -> bool:
        """Process the messages of a worker. Return whether there were messages."""
        child = slot.child
        if child is None:
            return False
        messages = child.receive()
        for message in messages:
            self._take_in(slot, message)
        job = slot.job
        if job is None:
            if messages:
                slot.idle_from(now_ms)
            elif now_ms - slot.idle_since_ms > IDLE_MAX_MS:
                child.kill()
        elif not child.is_alive:
            slot.finish()
            self._on_death(job)
        elif not job.is_valid and not job.is_stopped:
            job.stop()
            child.send(encode_stop(job.item.number))
        if not child.is_alive:
            slot.end()
        return bool(messages)

    def _take_in(self, slot: Slot, message: Message) -> None:
        job = slot.job
        if job is None or message.number != job.item.number:
            return
        match message:
            case Replaced():
                self._replace(job, message)
            case Done():
                slot.finish()
                self._finish(job, message)
            case Failed():
                slot.finish()
                self._on_failure(job, message)

    def _replace(self, job: Job, message: Replaced) -> None:
        log = job.log
        assert job.remaining[: len(message.old)] == message.old
        try:
            if job.is_valid:
                log.replace_segments(message.old, message.size)
            else:
                remove_cleaned(
                    log.partition_directory.storage.file_system, log.path, message.old[0]
                )
        except OSError as error:
            if job.is_valid:
                log.partition_directory.fail("replace segments of", error)
        del job.remaining[: len(message.old)]

    def _finish(self, job: Job, message: Done) -> None:
        log = job.log
        self._has_cleaned = True

        def done(error: BaseException | None) -> None:
            is_valid = job.is_valid
            log.cleaning.end()
            if not is_valid:
                return
            if error is not None:
                log.partition_directory.fail("sync the directory of", error)
                return
            self._schedule.succeeded(log.topic_partition)
            log.cleaning.cleaned_to(message.next_offset)
            self._unwritten[log.directory] = None
            self.statistics.cleaned(message)
            logger.info(
                "%s is compacted up to offset %d: %d of %d bytes were kept, in %d ms",
                log.topic_partition,
                message.next_offset,
                message.bytes_written,
                sum(size for _, size in job.item.segments),
                message.elapsed_ms,
            )

        log.partition_directory.storage.background(
            lambda: log.partition_directory.storage.file_system.sync_directory(log.path), done
        )

    def _on_failure(self, job: Job, message: Failed) -> None:
        is_valid = job.is_valid
        self._give_up(job)
        if not is_valid or message.was_stopped:
            return
        if message.lacks_room:
            partition = job.log.topic_partition
            logger.warning("%s is not compacted in this round: %s", partition, message.reason)
        elif message.is_device:
            job.log.partition_directory.fail("compact", OSError(message.reason))
        else:
            self._cannot(job.log, message.reason)

    def _on_death(self, job: Job) -> None:
        partition = job.log.topic_partition
        logger.warning("the process that compacted %s has died", partition)
        self.statistics.died()
        was_valid = job.is_valid
        self._give_up(job)
        if was_valid and self._schedule.died(partition, job.log.directory.path):
            logger.error("%s is not compacted any more", partition)

    def _give_up(self, job: Job) -> None:
        """End a failed job, and remove the files that the worker may have left."""
        log = job.log
        log.cleaning.end()
        if job.remaining and not log.is_deleted and not log.directory.is_offline:
            try:
                remove_cleaned(
                    log.partition_directory.storage.file_system, log.path, job.remaining[0]
                )
            except OSError as error:
                log.partition_directory.fail("remove files of", error)

    def _share(self) -> float:
        """Divide `log.cleaner.io.max.bytes.per.second` among the busy workers."""
        busy = sum(1 for slot in self._slots if slot.job is not None)
        return self._manager.config.log_cleaner_io_max_bytes_per_second / max(1, busy)

    def _share_rate(self) -> None:
        rate = self._share()
        if rate != self._rate:
            self._rate = rate
            for slot in self._slots:
                if slot.job is not None and slot.child is not None:
                    slot.child.send(encode_rate(rate))

    # -- checkpoints --------------------------------------------------------------------------

    def _write_checkpoints(self) -> None:
        unwritten, self._unwritten = self._unwritten, {}
        for directory in unwritten:
            if not directory.is_offline:
                self._file(directory).write_later(
                    self._offsets(directory), partial(self._on_checkpoint, directory)
                )

    def _on_checkpoint(self, directory: LogDirectory, error: BaseException | None) -> None:
        """Handle the end of a write. After an error, the checkpoint must be written again."""
        if error is not None:
            self._unwritten[directory] = None

    def forget(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """Remove the entry with the name of a new log from the checkpoint.

        Such an entry belongs to a deleted log with the same name.

        Raises:
            OSError: the device failed.
        """
        self._file(directory).forget(partition, lambda: self._offsets(directory))

    def _file(self, directory: LogDirectory) -> CheckpointFile:
        if directory.path not in self._files:
            self._files[directory.path] = CheckpointFile(
                self._manager.storage, directory, names.CLEANER_CHECKPOINT
            )
        return self._files[directory.path]

    def _offsets(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {
            log.topic_partition: log.cleaning.first_dirty_offset
            for log in self._manager.logs_in(directory)
            if log.cleaning.first_dirty_offset >= 0
        }
