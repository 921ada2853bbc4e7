"""Reads a file that is followed, from any position: a plain one, which may grow, or a compressed one.

Files stay open, so that they can be read to their end after they were renamed or deleted.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from odradek.pipelines.inputs import BLOCK_BYTES, blocks_of, is_compressed

Identity = tuple[int, int]
"""The device and the inode of a file."""
TAIL_BYTES = 1024


class LostError(Exception):
    """A file is no longer what was read of it: it was truncated, or written again."""


def identity_of(state: os.stat_result) -> Identity:
    """Return the device and inode."""
    return state.st_dev, state.st_ino


class Followed(ABC):
    """A file that is followed."""

    is_whole = False
    """Whether the file does not grow: its last line needs no line break."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.identity = identity_of(os.fstat(raw.fileno()))

    @abstractmethod
    def read(self, start_bytes: int, before: bytes, limit_bytes: int) -> bytes:
        """Return content from a position; less than `limit_bytes` at the end. `before` is before it.

        Raises:
            LostError: other content is before the position.
            DamagedError: a compressed file cannot be read further.
        """

    @abstractmethod
    def content(self) -> Iterator[bytes]:
        """Yield the content from the beginning.

        Raises:
            DamagedError: a compressed file cannot be read to its end.
        """

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    @property
    def is_deleted(self) -> bool:
        """Whether the file has no name any more. It may still be read."""
        return os.fstat(self._raw.fileno()).st_nlink == 0

    @property
    def size_bytes(self) -> int:
        """The present size on the disk."""
        return os.fstat(self._raw.fileno()).st_size

    @property
    def modified_ms(self) -> int:
        """When it was changed last, in ms since 1970."""
        return os.fstat(self._raw.fileno()).st_mtime_ns // 1_000_000


class PlainFile(Followed):
    """A file that may grow, or be truncated."""

    def read(self, start_bytes: int, before: bytes, limit_bytes: int) -> bytes:
        """See `Followed`. One call of the system reads what is before, too."""
        size = len(before) + limit_bytes
        found = os.pread(self._raw.fileno(), size, start_bytes - len(before))
        if found[: len(before)] != before:
            raise LostError
        return found[len(before) :]

    def content(self) -> Iterator[bytes]:
        """See `Followed`."""
        start = 0
        while block := os.pread(self._raw.fileno(), BLOCK_BYTES, start):
            yield block
            start += len(block)


class CompressedFile(Followed):
    """A file that does not change. It is decompressed as a stream."""

    is_whole = True

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(raw)
        self._at_bytes = 0
        self._stream: Iterator[bytes] | None = None
        self._left = b""

    def read(self, start_bytes: int, before: bytes, limit_bytes: int) -> bytes:
        """See `Followed`. What is before is not compared: `finding` has compared the file."""
        del before
        if self._stream is None or start_bytes < self._at_bytes:
            self._stream, self._at_bytes, self._left = self.content(), 0, b""
        self._skip(self._stream, start_bytes - self._at_bytes)
        parts = [self._left]
        size = len(self._left)
        while size < limit_bytes and (block := next(self._stream, b"")):
            parts.append(block)
            size += len(block)
        found = b"".join(parts)
        self._left = found[limit_bytes:]
        self._at_bytes = start_bytes + len(found[:limit_bytes])
        return found[:limit_bytes]

    def _skip(self, blocks: Iterator[bytes], count: int) -> None:
        while count > len(self._left):
            count -= len(self._left)
            self._left = next(blocks, b"")
            if not self._left:
                return
        self._left = self._left[count:]

    def content(self) -> Iterator[bytes]:
        """See `Followed`. Only the last iterator may be used."""
        return blocks_of(self._raw)


def opened(path: Path) -> Followed:
    """Open a file.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    raw = os.fdopen(descriptor, "rb", buffering=0)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raw.close()
        raise FileNotFoundError(path)
    return CompressedFile(raw) if is_compressed(raw) else PlainFile(raw)
