"""A file system for tests, which never flushes files to disk."""

from __future__ import annotations

from odradek.env.file_system import OsFileSystem


class UnsyncedFileSystem(OsFileSystem):
    """The real file system without fsync. Data may be lost only if the operating system crashes."""

    def fsync(self, descriptor: int) -> None:  # type: ignore[override]
        """Do nothing."""

    def fdatasync(self, descriptor: int) -> None:  # type: ignore[override]
        """Do nothing."""

    def sync_directory(self, path: str) -> None:
        """Do nothing."""
