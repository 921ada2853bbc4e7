"""The steps in which a log replaces another one in another log directory.

`LogManager.promote_future` calls these functions in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.env.file_system import FileSystem
from odradek.log.directory import LogDirectory
from odradek.log.partition_log import PartitionLog
from odradek.log.storage import Storage


def take_over(log: PartitionLog, other: PartitionLog) -> None:
    """Give a log the state of another log that is not in its files. Both logs have the same end."""
    assert log.log_end_offset == other.log_end_offset
    if other.leader_epoch > log.leader_epoch:
        log.on_leader_epoch(other.leader_epoch)
    log.high_watermark = other.high_watermark
    if other.log_start_offset > log.log_start_offset:
        log.delete_records_before(other.log_start_offset)
    log.producers.take_verifications(other.producers)


def rename_all(file_system: FileSystem, renames: Sequence[tuple[PartitionLog, str]]) -> None:
    """Rename the directories of logs in this order. If a rename fails, undo the others.

    Raises:
        DiskFull, LogDirectoryOffline: a disk is full or failed.
    """
    for number, (log, path) in enumerate(renames):
        try:
            file_system.rename(log.path, path)
        except OSError as error:
            for other, name in renames[:number]:
                try:
                    file_system.rename(name, other.path)
                except OSError as failure:
                    other.directory.fail(f"could not restore {other.path}", failure)
            raise log.partition_directory.refuse("move", error) from error


def on_renamed(log: PartitionLog, path: str, replaced: PartitionLog | None) -> None:
    """Record that the directory of a log was renamed to `path`. No flush of the log may be running.

    `replaced` is the log that this log replaces. After a power loss, before the new names are
    durable, it may be the log again.
    """
    assert log.flush_state.is_idle
    log.partition_directory.on_moved(path, None if replaced is None else replaced.directory)
    if replaced is not None:
        log.flush_state.on_replaced(replaced.recovery_point)
    log.segments.on_directory_moved(path)


def flush_names(
    storage: Storage, directories: Sequence[LogDirectory], flushed: Callable[[], None]
) -> None:
    """Flush the names in log directories in the background, then call `flushed`.

    A directory whose flush fails goes offline. Then `flushed` is not called.
    """
    failures: list[tuple[LogDirectory, OSError]] = []

    def work() -> None:
        for each in directories:
            try:
                storage.file_system.sync_directory(each.path)
            except OSError as error:
                failures.append((each, error))

    def done(error: BaseException | None) -> None:
        for each, failure in failures:
            each.fail("could not flush its names", failure)
        if error is None and not failures:
            flushed()

    storage.background(work, done)
