"""A log directory of the node (`log.dirs`), and the state of its disk."""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.env.file_system import FileSystem
from odradek.log import names
from odradek.log.errors import DiskFull, LogDirectoryOffline, is_for_room

logger = logging.getLogger("odradek.log")


class LogDirectory:
    """A log directory. `id` is the `directory.id` in `meta.properties`; None if it has none yet.

    After the first error of its device, a directory is offline until the node is restarted, because
    the content of the device is uncertain. `on_failure` is called once. If the device is only full,
    the directory stays online. Then the failed write is undone, and everything else continues.
    """

    __slots__ = ("id", "is_full", "is_offline", "lock", "log_count", "on_failure", "path")

    def __init__(self, path: str, directory_id: bytes | None = None) -> None:
        self.path = path
        self.id = directory_id
        self.is_offline = False
        self.is_full = False
        """Whether a write was refused recently because the disk is full."""
        self.lock: int | None = None
        """The descriptor of the `.lock` file while the lock is held."""
        self.log_count = 0
        """Number of logs. A new log is created in the directory with the fewest logs."""
        self.on_failure: Callable[[LogDirectory], None] | None = None

    def tell_failure(self, on_failure: Callable[[LogDirectory], None]) -> None:
        """Set the function that is called once when the directory goes offline."""
        self.on_failure = on_failure

    def lock_with(self, descriptor: int) -> None:
        """Store the descriptor with which the `.lock` file was locked."""
        self.lock = descriptor

    def unlock(self, file_system: FileSystem) -> None:
        """Release the lock of the directory."""
        if self.lock is not None:
            file_system.close(self.lock)
            self.lock = None

    def set_id(self, directory_id: bytes | None) -> None:
        """Set the id, which is in `meta.properties`."""
        self.id = directory_id

    def on_logs_loaded(self, count: int) -> None:
        """Set the number of logs."""
        self.log_count = count

    def on_log_added(self) -> None:
        """Count a log that was created in the directory."""
        self.log_count += 1

    def on_log_removed(self) -> None:
        """Count a log that was deleted from the directory."""
        self.log_count -= 1

    def forget_fullness(self) -> None:
        """Reset `is_full`, so that the next write that is refused is reported in the node's log."""
        self.is_full = False

    def file(self, name: str) -> str:
        """Return the path of a file or directory in the log directory."""
        return f"{self.path}/{name}"

    @property
    def recovery_points(self) -> str:
        """The path of the checkpoint of recovery points."""
        return self.file(names.RECOVERY_POINT_CHECKPOINT)

    @property
    def log_start_offsets(self) -> str:
        """The path of the checkpoint of log start offsets that are inside a segment."""
        return self.file(names.LOG_START_OFFSET_CHECKPOINT)

    @property
    def high_watermarks(self) -> str:
        """The path of the checkpoint of high watermarks."""
        return self.file(names.HIGH_WATERMARK_CHECKPOINT)

    def fail(self, what: str, error: BaseException) -> LogDirectoryOffline:
        """Go offline after an error, report the error, and return the exception to raise.

        An exception other than an `OSError` is a defect of Odradek. It has the same consequence as
        a failed device, because the state of the files is uncertain.
        """
        message = f"{what}: {error}"
        if not self.is_offline:
            self.is_offline = True
            defect = None if isinstance(error, OSError) else error
            logger.error("log directory %s goes offline: %s", self.path, message, exc_info=defect)
            if self.on_failure is not None:
                self.on_failure(self)
        return LogDirectoryOffline(message)

    def refuse(self, what: str, error: BaseException) -> DiskFull | LogDirectoryOffline:
        """Handle a failed write that can be undone. Return the exception to raise.

        If the disk is only full, the directory stays online.
        """
        if not is_for_room(error):
            return self.fail(what, error)
        message = f"{what}: {error}"
        if not self.is_full:
            self.is_full = True
            logger.error("log directory %s has no room, it refuses writes: %s", self.path, message)
        return DiskFull(message)

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}{', offline' if self.is_offline else ''})"
