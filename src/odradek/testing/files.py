"""A file system for tests: the real one, without syncs."""

from __future__ import annotations

from odradek.env.file_system import OsFileSystem


class UnsyncedFileSystem(OsFileSystem):
    """Skips all syncs; a crash of the machine, which ends the tests too, may lose data."""

    def fsync(self, descriptor: int) -> None:  # type: ignore[override]
        """Do nothing."""

    def fdatasync(self, descriptor: int) -> None:  # type: ignore[override]
        """Do nothing."""

    def sync_directory(self, path: str) -> None:
        """Do nothing."""
