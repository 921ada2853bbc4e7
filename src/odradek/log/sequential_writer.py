"""Writes a new file from its beginning to its end in large pieces, for the cleaner.

The pieces are written with direct I/O from one buffer. There are two reasons. In the page cache,
data that may never be read would evict the newest records, which consumers read. And the kernel can
take milliseconds to allocate a page for each 4 KB, most of all in a virtual machine whose host must
provide the memory.
"""

from __future__ import annotations

import errno

from odradek.env.file_system import (
    DIRECT_STEP,
    READ_WRITE,
    Buffer,
    FileSystem,
    aligned_memory,
    write_fully,
)

PIECE_BYTES = 256 * DIRECT_STEP


class SequentialWriter:
    """A writer for one file. Call `finish`, then fsync the descriptor. Always call `close`."""

    __slots__ = ("_buffer", "_descriptor", "_direct", "_file_system", "_filled", "_written")

    def __init__(self, file_system: FileSystem, path: str, descriptor: int) -> None:
        """`descriptor` is a descriptor of the empty file. The caller closes this descriptor.

        Raises:
            OSError: the device failed.
        """
        self._file_system = file_system
        self._descriptor = descriptor
        # Direct I/O requires memory that is aligned to a page.
        self._buffer = aligned_memory(PIECE_BYTES)
        self._direct = file_system.open_direct(path, READ_WRITE)
        self._filled = 0
        self._written = 0

    @property
    def size(self) -> int:
        """The size of the file after `finish`."""
        return self._written + self._filled

    def add(self, data: Buffer) -> int:
        """Append data. Return the number of bytes that this call wrote to the file.

        Raises:
            OSError: the device failed. The file cannot be used.
        """
        before = self._written
        rest = memoryview(data)
        while len(rest) >= (free := PIECE_BYTES - self._filled):
            self._buffer[self._filled :] = rest[:free]
            self._write_piece()
            rest = rest[free:]
        end = self._filled + len(rest)
        self._buffer[self._filled : end] = rest
        self._filled = end
        return self._written - before

    def finish(self) -> int:
        """Write the bytes that are only in the buffer. Return their number.

        Raises:
            OSError: the device failed.
        """
        count = self._filled
        if count:
            rest = self._buffer[:count]
            write_fully(self._file_system, self._descriptor, rest, self._written)
            self._written += count
            self._filled = 0
        return count

    def close(self) -> None:
        """Close the descriptor that this object opened."""
        if self._direct is not None:
            self._file_system.close(self._direct)
            self._direct = None

    def _write_piece(self) -> None:
        written = 0
        if self._direct is not None:
            try:
                written = self._file_system.pwrite(self._direct, self._buffer, self._written)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                self.close()  # the file system needs a larger alignment, or has no direct I/O
        if written < PIECE_BYTES:
            rest = self._buffer[written:]
            write_fully(self._file_system, self._descriptor, rest, self._written + written)
        self._written += PIECE_BYTES
        self._filled = 0
