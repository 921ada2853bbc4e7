"""Reads a file from its beginning to its end in pieces, for recovery.

Data that is not in the page cache is read with direct I/O into one buffer. There are two reasons.
Recovery may read tens of gigabytes once, which would evict everything else from the page cache. And
the kernel would take longer to allocate a page for each 4 KB than the checksums take.
"""

from __future__ import annotations

import errno

from odradek.env.file_system import DIRECT_STEP, FileSystem, aligned_memory

WORTHWHILE_BYTES = 1 << 20
"""A smaller file is read through the page cache."""


class SequentialReader:
    """A reader for one file and one thread. Call `close` at the end."""

    __slots__ = ("_buffer", "_descriptor", "_direct", "_file_system")

    def __init__(self, file_system: FileSystem, path: str, descriptor: int, size: int) -> None:
        """`descriptor` is a descriptor of the file. The caller closes this descriptor."""
        self._file_system = file_system
        self._descriptor = descriptor
        self._buffer = memoryview(b"")
        self._direct: int | None = None
        if size >= WORTHWHILE_BYTES and not file_system.is_resident(descriptor, 0, size):
            self._direct = file_system.open_direct(path)

    def close(self) -> None:
        """Close the descriptor that this object opened."""
        if self._direct is not None:
            self._file_system.close(self._direct)
            self._direct = None

    def read(self, position: int, length: int) -> memoryview:
        """Return at least `length` bytes from `position` on, or all bytes to the end of the file.

        The result is valid until the next call.

        Raises:
            OSError: the device failed.
        """
        if self._direct is not None:
            try:
                return self._read_direct(self._direct, position, length)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self.close()  # the file system needs a larger alignment, or has no direct I/O
        return memoryview(self._file_system.pread(self._descriptor, length, position))

    def _read_direct(self, descriptor: int, position: int, length: int) -> memoryview:
        before = position % DIRECT_STEP
        size = -(-(before + length) // DIRECT_STEP) * DIRECT_STEP
        if size > len(self._buffer):
            self._buffer = aligned_memory(size)
        buffer = self._buffer[:size]
        count = self._file_system.read_into(descriptor, buffer, position - before)
        return buffer[before:count]
