"""Files and directories.

`FileSystem` has the functions of a POSIX file system that a log needs. The functions take
descriptors and paths. Most methods of `OsFileSystem` are the functions of `os` themselves, so that
a call has no overhead. A simulated file system stores two contents of every file: the written
content and the durable content. To simulate a crash, it drops what is not durable.

Every implementation, real or simulated, guarantees:

- Written bytes are visible to every reader at once. They survive a crash only after `fsync` or
  `fdatasync` of the file. Both also make the length of the file durable.
- A created, renamed or removed name survives a crash only after `sync_directory` of its directory.
- `rename` replaces its target atomically. After a crash, the old or the new file exists.
- Every method may raise `OSError`. `pwrite` and `pwritev` may write fewer bytes than given.
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
"""Mode of new files. The umask restricts this mode. The default mode of `os.open` would make files
executable."""

DIRECT_STEP = 4096
"""Alignment of reads and writes that bypass the page cache. The position in the file, the address
in memory and the length must be multiples of it."""


class FileStatus(NamedTuple):
    """Attributes of a file."""

    size: int
    modified_ms: int
    is_directory: bool


class DirectoryEntry(NamedTuple):
    """A name in a directory."""

    name: str
    is_directory: bool


class FileSystem(Protocol):
    """The functions of a file system, with the guarantees that the module's docstring lists."""

    def open(self, path: str, flags: int, mode: int = FILE_MODE) -> int:
        """Open a file and return its descriptor. `mode` is the mode of a new file.

        `flags` is READ_ONLY, READ_WRITE, CREATE or CREATE_EMPTY.
        """
        ...

    def close(self, descriptor: int) -> None:
        """Close the descriptor."""
        ...

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        """Read `length` bytes. Return fewer only at the end of the file."""
        ...

    def open_direct(self, path: str, flags: int = READ_ONLY) -> int | None:
        """Open a file for reads and writes that bypass the page cache.

        Return its descriptor; None if the system does not support this.
        """
        ...

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Fill the buffer and return the number of bytes read.

        The number is less than the length of the buffer only at the end of the file.
        """
        ...

    def pwrite(self, descriptor: int, data: Buffer, position: int) -> int:
        """Write bytes. Return the number of bytes written, which may be less than given."""
        ...

    def pwritev(self, descriptor: int, parts: Sequence[Buffer], position: int) -> int:
        """Write the parts one after another. Return the number of bytes written, as `pwrite`."""
        ...

    def fsync(self, descriptor: int) -> None:
        """Flush the file to the device. Its content and length then survive a crash."""
        ...

    def fdatasync(self, descriptor: int) -> None:
        """Flush the file as `fsync` does, but without its timestamps."""
        ...

    def truncate(self, descriptor: int, length: int) -> None:
        """Set the length of the file: cut the file, or extend it with zeros."""
        ...

    def size(self, descriptor: int) -> int:
        """Return the length of the open file in bytes."""
        ...

    def status(self, path: str) -> FileStatus | None:
        """Return the status of the path; None if the path does not exist."""
        ...

    def scan(self, path: str) -> list[DirectoryEntry]:
        """Return the entries of a directory, in no particular order."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory; a file replaces the target."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Set the modification time of a file, in milliseconds since 1970."""
        ...

    def sync_directory(self, path: str) -> None:
        """Flush the directory to the device. The names in it then survive a crash."""
        ...

    def lock(self, descriptor: int) -> bool:
        """Lock an open file until it is closed. Return False if another process has locked it."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """Return the size of the volume and its usable free space, in bytes."""
        ...

    def is_resident(self, descriptor: int, position: int, length: int) -> bool:
        """Return whether the range seems to be in the page cache."""
        ...

    def missing_bytes(self, descriptor: int, position: int, length: int) -> int:
        """Return an estimate of how many bytes of the range are not in the page cache."""
        ...

    def load(self, descriptor: int, position: int, length: int) -> None:
        """Read a range of the file into the page cache. Block until the device has read it."""
        ...

    def non_blocking(self) -> FileSystem:
        """Return the same file system, whose `pread` raises `ReadWouldBlock` instead of waiting.

        There are two exceptions: the system cannot tell whether a range is cached, or no file
        descriptor is free. Then this `pread` waits for the device.
        """
        ...


class OsFileSystem:
    """The file system of the operating system."""

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
        """See `FileSystem`. The lock is a POSIX record lock, as in Java's `FileChannel.tryLock`."""
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

    missing_bytes = staticmethod(page_cache.missing_bytes)

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
    """Return page-aligned memory, as reads and writes that bypass the page cache need it."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return memoryview(mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    return memoryview(mmap.mmap(-1, length))


def parent_of(path: str) -> str:
    """Return the directory that contains the path."""
    return os.path.dirname(path)


def ensure_directory(file_system: FileSystem, path: str) -> None:
    """Create the directory and its missing parents, durably.

    Raises:
        OSError: the device fails or is full, or creating the directory is not permitted.
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
    """Return the whole content of a file.

    Raises:
        FileNotFoundError: the file does not exist.
        OSError: the file cannot be read.
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
    """Write all of `data`, in as many calls as needed.

    Raises:
        OSError: the device fails or is full. A part of the data may be in the file.
    """
    written = file_system.pwrite(descriptor, data, position)
    while written < len(data):
        written += file_system.pwrite(descriptor, memoryview(data)[written:], position + written)


def replace_file(file_system: FileSystem, path: str, data: Buffer, sync: bool = True) -> None:
    """Replace the content of the file with `data`, atomically and durably.

    Write `path.tmp`, fsync it, rename it to `path`, and fsync the directory. Without `sync`, the
    replacement is still atomic for readers, but after a crash the file may have its old content or
    be empty.

    Raises:
        OSError: the device fails or is full. The file has its old content, or, if only the fsync of
            the directory failed, its new content.
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
    """Remove a directory and its content; no error if it does not exist.

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
