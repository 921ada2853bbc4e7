"""The directory of one partition: its paths and the handling of disk failures.

All parts of a log share one `PartitionDirectory`. It tracks whether its names must be synced: code
that creates, renames or removes a file in it calls `on_names_changed`, and the next flush syncs the
directory.
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
    """See the module. `path` is inside `log_directory`, which is one of `log.dirs`."""

    __slots__ = (
        "_is_created",
        "_is_synced",
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
        """Whether the log is deleted, so that another log may have files at the same path."""
        self._is_created = True
        """Whether the directory's own name survives a crash."""
        self._is_synced = True
        """Whether the names in it survive a crash."""

    # -- names ----------------------------------------------------------------------------------

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return f"{self.path}/{name}"

    def on_created(self) -> None:
        """The directory was created: neither its name nor the names in it are synced."""
        self._is_created = self._is_synced = False

    def on_names_changed(self) -> None:
        """A file was created, renamed or removed."""
        self._is_synced = False

    def on_deleted(self) -> None:
        """The directory is being renamed, and will be removed."""
        self.is_deleted = True

    @property
    def is_synced(self) -> bool:
        """Whether all names are synced, or will be by flushes that have begun."""
        return self._is_created and self._is_synced

    def take_unsynced(self) -> Sequence[str]:
        """Return the directories that a flush must sync, and count them as synced."""
        paths = []
        if not self._is_synced:
            self._is_synced = True
            paths.append(self.path)
        if not self._is_created:
            self._is_created = True
            paths.append(parent_of(self.path))
        return paths

    def put_back_unsynced(self, paths: Sequence[str]) -> None:
        """Return directories that a flush may not have synced to the next flush."""
        self._is_synced = self._is_synced and self.path not in paths
        self._is_created = self._is_created and parent_of(self.path) not in paths

    def remove_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files after the delay."""
        self.storage.remove_later(paths, delay_ms)

    # -- failures -------------------------------------------------------------------------------

    def check_online(self) -> None:
        """Raise an error if the disk has failed.

        Raises:
            LogDirectoryOffline: the log directory has failed before.
        """
        if self.log_directory.is_offline:
            raise LogDirectoryOffline(f"the log directory of {self.topic_partition} is offline")

    def fail(self, what: str, error: BaseException) -> LogDirectoryOffline:
        """Put the log directory offline after a disk failure; return the exception to raise."""
        return self.log_directory.fail(f"could not {what} {self.topic_partition}", error)

    def refuse(self, what: str, error: BaseException) -> DiskFull | LogDirectoryOffline:
        """A write failed that can be undone; return the exception to raise."""
        return self.log_directory.refuse(f"could not {what} {self.topic_partition}", error)

    def unreadable(
        self, error: OSError | DamagedFile
    ) -> LogDamaged | DiskFull | LogDirectoryOffline:
        """A read failed by a device error or a damaged file; return the exception to raise."""
        if isinstance(error, OSError):
            return self.refuse("read", error)
        logger.error("%s is damaged: %s", self.topic_partition, error)
        return LogDamaged(f"{self.topic_partition}: {error}")
