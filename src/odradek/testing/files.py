"""A file system that never flushes files to disk, and knows the files that are open."""

from __future__ import annotations

from odradek.env.file_system import FILE_MODE, READ_ONLY, OsFileSystem


class UnsyncedFileSystem(OsFileSystem):
    """The real file system without fsync. Data may be lost only if the operating system crashes."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: set[int] = set()

    def open(self, path: str, flags: int, mode: int = FILE_MODE) -> int:
        """See `FileSystem`."""
        descriptor = super().open(path, flags, mode)
        self._open.add(descriptor)
        return descriptor

    def open_direct(self, path: str, flags: int = READ_ONLY) -> int | None:
        """See `FileSystem`."""
        descriptor = super().open_direct(path, flags)
        if descriptor is not None:
            self._open.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        """See `FileSystem`. The objects of a node that has ended may close files once more."""
        if descriptor in self._open:
            self._open.remove(descriptor)
            super().close(descriptor)

    def close_all(self) -> None:
        """Close the open files, as the end of a process does. This releases their locks."""
        while self._open:
            super().close(self._open.pop())

    def fsync(self, descriptor: int) -> None:  # type: ignore[override]
        """Do nothing."""

    def fdatasync(self, descriptor: int) -> None:  # type: ignore[override]
        """Do nothing."""

    def sync_directory(self, path: str) -> None:
        """Do nothing."""
