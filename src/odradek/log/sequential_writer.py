"""Writes a new file from its front to its end in large pieces, as the cleaner does.

The pieces go past the page cache, from one buffer. What is written once and perhaps never read would
push out what consumers at the tail read; and to find a new page for each 4 KB holds a processor for
milliseconds at a time, most of all where a virtual machine has to ask its host for the memory.
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
    """See the module. `finish`, then sync the descriptor; `close` in any case."""

    __slots__ = ("_buffer", "_descriptor", "_direct", "_file_system", "_filled", "_written")

    def __init__(self, file_system: FileSystem, path: str, descriptor: int) -> None:
        """`descriptor` is that of the empty file, and stays the caller's.

        Raises:
            OSError: the device failed.
        """
        self._file_system = file_system
        self._descriptor = descriptor
        # Begins at a page, as writes past the cache must.
        self._buffer = aligned_memory(PIECE_BYTES)
        self._direct = file_system.open_direct(path, READ_WRITE)
        self._filled = 0
        self._written = 0

    @property
    def size(self) -> int:
        """Bytes of the file when all are written."""
        return self._written + self._filled

    def add(self, data: Buffer) -> int:
        """Add to the end. The bytes written now, of what was added since the last time.

        Raises:
            OSError: the device failed; the file is of no use then.
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
        """Write what is left; how much it was.

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
        """Let go of what it has opened."""
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
                self.close()  # the file system wants more than DIRECT_STEP, or none of it
        if written < PIECE_BYTES:
            rest = self._buffer[written:]
            write_fully(self._file_system, self._descriptor, rest, self._written + written)
        self._written += PIECE_BYTES
        self._filled = 0
