"""Files and directories, as an argument.

`FileSystem` is the little of a POSIX file system that a log needs, in terms of descriptors and
paths. `OsFileSystem` holds the functions of `os` themselves, so that who binds
`file_system.pwrite` once calls the system call's wrapper and nothing else. A double keeps two
contents of every file, what was written and what was synced, and drops the difference at will.

What a caller may rely on, and a double must honour:

- Written bytes are seen by every reader at once; they survive a crash only after `fsync` or
  `fdatasync` of that file (`fdatasync` includes the file's length).
- A created, renamed or removed name survives a crash only after `sync_directory` of its parent.
- `rename` replaces its target in one step: after a crash there is the old file or the new one.
- Any call may raise `OSError`; `pwrite` and `pwritev` may write less than they were given.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from odradek.env import page_cache

Buffer = bytes | bytearray | memoryview

READ_ONLY = os.O_RDONLY | os.O_CLOEXEC
READ_WRITE = os.O_RDWR | os.O_CLOEXEC
CREATE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
CREATE_EMPTY = CREATE | os.O_TRUNC

FILE_MODE = 0o666
"""Of new files, less what the process's umask takes away; `os.open` would make programs of them."""

DIRECT_STEP = 4096
"""Reads and writes past the page cache begin at multiples of it, in the file and in memory, and
their lengths are such."""


class FileStatus(NamedTuple):
    """What a directory knows of a file."""

    size: int
    modified_ms: int
    is_directory: bool


class DirectoryEntry(NamedTuple):
    """A name in a directory."""

    name: str
    is_directory: bool


class FileSystem(Protocol):
    """See the module."""

    def open(self, path: str, flags: int, mode: int = FILE_MODE) -> int:
        """A descriptor; `flags` is one of this module's, `mode` that of a file that it makes."""
        ...

    def close(self, descriptor: int) -> None:
        """Give the descriptor back."""
        ...

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        """At most `length` bytes; fewer only at the end of the file."""
        ...

    def open_direct(self, path: str, flags: int = READ_ONLY) -> int | None:
        """A descriptor for `read_into` and `pwrite` past the page cache; None where there is no
        such thing."""
        ...

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Bytes read into the buffer; fewer than it has only at the end of the file."""
        ...

    def pwrite(self, descriptor: int, data: Buffer, position: int) -> int:
        """Bytes written, perhaps fewer than given."""
        ...

    def pwritev(self, descriptor: int, parts: Sequence[Buffer], position: int) -> int:
        """Bytes written of all parts, perhaps fewer than given."""
        ...

    def fsync(self, descriptor: int) -> None:
        """The file's content and length survive a crash from now on."""
        ...

    def fdatasync(self, descriptor: int) -> None:
        """As `fsync`, without the times of the file."""
        ...

    def truncate(self, descriptor: int, length: int) -> None:
        """Cut the file, or extend it with zeros, to `length`."""
        ...

    def size(self, descriptor: int) -> int:
        """Length of the open file in bytes."""
        ...

    def status(self, path: str) -> FileStatus | None:
        """What is at the path; None if nothing is."""
        ...

    def scan(self, path: str) -> list[DirectoryEntry]:
        """The names in a directory, in no order."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name; a file replaces the target."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory, and its parents; no error if it is there."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Say when the file was last changed, where it takes the place of an older one."""
        ...

    def sync_directory(self, path: str) -> None:
        """The names in the directory survive a crash from now on."""
        ...

    def lock(self, descriptor: int) -> bool:
        """Lock an open file until it is closed; False if another process has it."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the volume: all of them, and those that may still be written."""
        ...

    def is_resident(self, descriptor: int, position: int, length: int) -> bool:
        """Whether a read would, as far as can be told, not wait for the device."""
        ...

    def missing_bytes(self, descriptor: int, position: int, length: int) -> int:
        """How many bytes of the range a read would wait for, as far as can be told."""
        ...

    def load(self, descriptor: int, position: int, length: int) -> None:
        """Have a range of the file in the page cache, if there is one; waits for the device."""
        ...

    def non_blocking(self) -> FileSystem:
        """The same files; a `pread` that would wait for the device raises `ReadWouldBlock`, if that can
        be told."""
        ...


class OsFileSystem:
    """The machine's file system."""

    __slots__ = ()

    close = staticmethod(os.close)
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    pwritev = staticmethod(os.pwritev)
    fsync = staticmethod(os.fsync)
    fdatasync = staticmethod(getattr(os, "fdatasync", os.fsync))
    truncate = staticmethod(os.ftruncate)
    rename = staticmethod(os.replace)
    remove = staticmethod(os.remove)
    remove_directory = staticmethod(os.rmdir)

    def open(self, path: str, flags: int, mode: int = FILE_MODE) -> int:
        """See `FileSystem`."""
        return os.open(path, flags, mode)

    def open_direct(self, path: str, flags: int = READ_ONLY) -> int | None:
        """See `FileSystem`."""
        flag = getattr(os, "O_DIRECT", None)
        if flag is None:
            return None
        try:
            return os.open(path, flags | flag)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return None

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """See `FileSystem`."""
        return os.preadv(descriptor, [buffer], position)

    def size(self, descriptor: int) -> int:
        """See `FileSystem`."""
        return os.lseek(descriptor, 0, os.SEEK_END)

    def status(self, path: str) -> FileStatus | None:
        """See `FileSystem`."""
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
        return FileStatus(
            found.st_size, found.st_mtime_ns // 1_000_000, stat.S_ISDIR(found.st_mode)
        )

    def scan(self, path: str) -> list[DirectoryEntry]:
        """See `FileSystem`."""
        with os.scandir(path) as entries:
            return [DirectoryEntry(entry.name, entry.is_dir()) for entry in entries]

    def make_directory(self, path: str) -> None:
        """See `FileSystem`."""
        os.makedirs(path, exist_ok=True)

    def set_modified(self, path: str, modified_ms: int) -> None:
        """See `FileSystem`."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def sync_directory(self, path: str) -> None:
        """See `FileSystem`."""
        descriptor = os.open(path, READ_ONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, descriptor: int) -> bool:
        """See `FileSystem`. POSIX record locks, as Java's `FileChannel.tryLock` takes them."""
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def space(self, path: str) -> tuple[int, int]:
        """See `FileSystem`."""
        found = os.statvfs(path)
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail

    def is_resident(self, descriptor: int, position: int, length: int) -> bool:
        """See `FileSystem`."""
        return not page_cache.missing_bytes(descriptor, position, length)

    def missing_bytes(self, descriptor: int, position: int, length: int) -> int:
        """See `FileSystem`."""
        return page_cache.missing_bytes(descriptor, position, length)

    def load(self, descriptor: int, position: int, length: int) -> None:
        """See `FileSystem`."""
        page_cache.load(descriptor, position, length)

    def non_blocking(self) -> FileSystem:
        """See `FileSystem`."""
        return NonBlockingFileSystem()


class NonBlockingFileSystem(OsFileSystem):
    """See `FileSystem.non_blocking`."""

    __slots__ = ()

    pread = staticmethod(page_cache.read_without_blocking)


def aligned_memory(length: int) -> memoryview:
    """Memory for `read_into` and `pwrite` past the page cache: it begins at a page."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return memoryview(mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    return memoryview(mmap.mmap(-1, length))


def parent_of(path: str) -> str:
    """The directory that the path is in."""
    return os.path.dirname(path)


def ensure_directory(file_system: FileSystem, path: str) -> None:
    """Make the directory and those above it that are missing; they survive a crash.

    Raises:
        OSError: the device fails or is full, or it may not be made there.
    """
    missing = []
    above = os.path.abspath(path)
    while file_system.status(above) is None:
        missing.append(above)
        above = os.path.dirname(above)
    for each in reversed(missing):
        file_system.make_directory(each)
        file_system.sync_directory(os.path.dirname(each))


def read_file(file_system: FileSystem, path: str) -> bytes:
    """The whole content.

    Raises:
        OSError: it cannot be read; FileNotFoundError if it is not there.
    """
    descriptor = file_system.open(path, READ_ONLY)
    try:
        length = file_system.size(descriptor)
        parts = []
        position = 0
        while position < length:
            part = file_system.pread(descriptor, length - position, position)
            if not part:
                break
            parts.append(part)
            position += len(part)
        return b"".join(parts)
    finally:
        file_system.close(descriptor)


def write_fully(file_system: FileSystem, descriptor: int, data: Buffer, position: int) -> None:
    """Write all of `data`, in as many calls as it takes.

    Raises:
        OSError: the device fails or is full; a part may have been written.
    """
    written = file_system.pwrite(descriptor, data, position)
    while written < len(data):
        written += file_system.pwrite(descriptor, memoryview(data)[written:], position + written)


def replace_file(file_system: FileSystem, path: str, data: Buffer, sync: bool = True) -> None:
    """Put `data` in the place of the file in one step that survives a crash.

    Writes `path.tmp`, syncs it, renames it and syncs the directory; without `sync` the step is
    still one step for readers, but a crash may undo it or leave an empty file.

    Raises:
        OSError: the device fails or is full; the old file is still there.
    """
    temporary = path + ".tmp"
    descriptor = file_system.open(temporary, CREATE_EMPTY)
    try:
        write_fully(file_system, descriptor, data, 0)
        if sync:
            file_system.fsync(descriptor)
    finally:
        file_system.close(descriptor)
    file_system.rename(temporary, path)
    if sync:
        file_system.sync_directory(os.path.dirname(path) or os.curdir)


def remove_tree(file_system: FileSystem, path: str) -> None:
    """Remove a directory and all that is in it; no error if it is not there.

    Raises:
        OSError: something cannot be removed.
    """
    try:
        entries = file_system.scan(path)
    except FileNotFoundError:
        return
    for entry in entries:
        inner = f"{path}/{entry.name}"
        if entry.is_directory:
            remove_tree(file_system, inner)
        else:
            file_system.remove(inner)
    file_system.remove_directory(path)
