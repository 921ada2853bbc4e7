"""A file system for tests: the real one, without waiting for the disk."""

from __future__ import annotations

from odradek.env.file_system import OsFileSystem


class UnsyncedFileSystem(OsFileSystem):
    """Nothing survives a crash of the machine, which no test outlives either."""

    def fsync(self, descriptor: int) -> None:  # type: ignore[override]
        """Do not wait."""

    def fdatasync(self, descriptor: int) -> None:  # type: ignore[override]
        """Do not wait."""

    def sync_directory(self, path: str) -> None:
        """Do not wait."""
