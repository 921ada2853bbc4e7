"""The directory of one partition. It has the paths of files, and handles disk failures.

All parts of a log share one `PartitionDirectory`. Code that creates, renames or removes a file in
the directory calls `on_names_changed`. The next flush of the log then flushes the directory, so
that the change survives a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from odradek.env.file_system import parent_of
from odradek.log.directory import LogDirectory
from odradek.log.errors import DamagedFile, DiskFull, LogDamaged, LogDirectoryOffline
from odradek.log.storage import Storage
from odradek.model.topic_partition import TopicPartition

logger = logging.getLogger("odradek.log")


class PartitionDirectory:
    """The directory of a partition. `path` is inside `log_directory` (one of `log.dirs`)."""

    __slots__ = (
        "_is_created",
        "_is_synced",
        "_replaced",
        "is_deleted",
        "log_directory",
        "path",
        "storage",
        "topic_partition",
    )

    def __init__(
        self,
        storage: Storage,
        log_directory: LogDirectory,
        path: str,
        topic_partition: TopicPartition,
    ) -> None:
        self.storage = storage
        self.log_directory = log_directory
        self.path = path
        self.topic_partition = topic_partition
        self.is_deleted = False
        """Whether the log is deleted. Then another log may have files at the same path."""
        self._is_created = True
        """Whether the directory's own name is durable, or will be after the running flushes."""
        self._replaced: LogDirectory | None = None
        self._is_synced = True
        """Whether the names in the directory are durable, or will be after the running flushes."""

    # -- names ----------------------------------------------------------------------------------

    def file(self, name: str) -> str:
        """Return the path of a file in the directory."""
        return f"{self.path}/{name}"

    def on_created(self) -> None:
        """Record that the directory was created. Its name and the names in it are not durable."""
        self._is_created = self._is_synced = False

    def on_moved(self, path: str, replaced: LogDirectory | None) -> None:
        """Record that the directory was renamed to `path`. The new name is not durable.

        `replaced` is the log directory in which another directory of the partition was renamed, so
        that it is not used any more.
        """
        self.path = path
        self._replaced = replaced
        self._is_created = False

    def on_names_changed(self) -> None:
        """Record that a file was created, renamed or removed."""
        self._is_synced = False

    def on_deleted(self) -> None:
        """Record that the log is deleted. The directory will be renamed and then removed."""
        self.is_deleted = True

    @property
    def is_synced(self) -> bool:
        """Whether all names are durable, or will be after the running flushes."""
        return self._is_created and self._is_synced

    def take_unsynced(self) -> Sequence[str]:
        """Return the directories that a flush must flush. From now on they count as flushed."""
        paths = []
        if not self._is_synced:
            self._is_synced = True
            paths.append(self.path)
        if not self._is_created:
            self._is_created = True
            paths.append(parent_of(self.path))
            if self._replaced is not None and not self._replaced.is_offline:
                paths.append(self._replaced.path)
        return paths

    def put_back_unsynced(self, paths: Sequence[str]) -> None:
        """Let the next flush flush these directories, because an earlier flush may have failed."""
        self._is_synced = self._is_synced and self.path not in paths
        self._is_created = self._is_created and parent_of(self.path) not in paths

    def remove_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files after `delay_ms`."""
        self.storage.remove_later(paths, delay_ms)

    # -- failures -------------------------------------------------------------------------------

    def check_online(self) -> None:
        """Check that the log directory is online.

        Raises:
            LogDirectoryOffline: the log directory has failed before.
        """
        if self.log_directory.is_offline:
            raise LogDirectoryOffline(f"the log directory of {self.topic_partition} is offline")

    def fail(self, what: str, error: BaseException) -> LogDirectoryOffline:
        """Put the log directory offline after a disk failure. Return the exception to raise."""
        return self.log_directory.fail(f"could not {what} {self.topic_partition}", error)

    def refuse(self, what: str, error: BaseException) -> DiskFull | LogDirectoryOffline:
        """Handle a failed write that can be undone. Return the exception to raise."""
        return self.log_directory.refuse(f"could not {what} {self.topic_partition}", error)

    def unreadable(
        self, error: OSError | DamagedFile
    ) -> LogDamaged | DiskFull | LogDirectoryOffline:
        """Handle a read that failed because of the device or a damaged file.

        Return the exception to raise.
        """
        if isinstance(error, OSError):
            return self.refuse("read", error)
        logger.error("%s is damaged: %s", self.topic_partition, error)
        return LogDamaged(f"{self.topic_partition}: {error}")
