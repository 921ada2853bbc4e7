"""Reads the files that a person gives to a pipeline: found, decompressed, and line by line.

What a file is says its content, not its name: gzip, bzip2, xz and zstd are decompressed. Nothing is
left out in silence: what is not read is returned as `Skipped`.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

STDIN = Path("-")
BLOCK_BYTES = 1 << 20
PROBE_BYTES = 4096
CONTROL_SHARE_MAX = 0.1
"""Text has fewer control characters than this. A few of them, also zero bytes, are in many logs."""
_CONTROL = bytes(set(range(32)) - set(b"\a\b\t\n\f\r\x1b"))
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException)


class DamagedError(ValueError):
    """A file cannot be read to its end: it is cut short, or is not what its first bytes say."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is not read of a file."""

    file: str
    reason: str
    lines: int | None
    """None if nobody knows, because the file cannot be read."""

    def __str__(self) -> str:
        """Return a line for people."""
        count = "an unknown number of" if self.lines is None else f"{self.lines:,}"
        return f"{self.file}: {count} lines are skipped: {self.reason}"


def files(given: Iterable[Path], stored: Path | None = None) -> list[Path]:
    """Return files, and the files in directories and their subdirectories, without links, sorted.

    If `given` has `STDIN` and `stored` is a directory, the standard input is stored there first, unless
    an earlier run has stored it.

    Raises:
        ValueError: there is no such file.
    """
    found: set[Path] = set()
    for path in given:
        if path == STDIN:
            if stored is not None:
                found.add(_stored_input(stored))
        elif path.is_dir():
            found |= {each for each in path.rglob("*") if each.is_file() and not each.is_symlink()}
        elif path.exists():
            found.add(path)
        else:
            raise ValueError(f"there is no file or directory {path}")
    return sorted(found)


def _stored_input(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "stdin"
    if not path.exists():
        draft = path.with_suffix(".draft")
        with draft.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        draft.replace(path)
    return path


def blocks(path: Path, limit: int | None = None) -> Iterator[bytes]:
    """Yield the decompressed content of a file in blocks; at most `limit` bytes.

    Raises:
        PermissionError: the file may not be read.
        DamagedError: it cannot be read to its end.
    """
    try:
        with path.open("rb") as raw:
            yield from blocks_of(raw, limit)
    except PermissionError:
        raise
    except OSError as error:
        raise _damaged(error) from error


def blocks_of(raw: BinaryIO, limit: int | None = None) -> Iterator[bytes]:
    """Yield the decompressed content of an open file from its beginning.

    Raises:
        DamagedError: it cannot be read to its end.
    """
    left = limit
    try:
        file = _decompressed(raw)
        # `read` loses what it has when it comes to the damage of a file.
        read = getattr(file, "read1", file.read)
        while left is None or left > 0:
            block = read(BLOCK_BYTES if left is None else min(left, BLOCK_BYTES))
            if not block:
                return
            left = None if left is None else left - len(block)
            yield block
    except _DAMAGED as error:
        raise _damaged(error) from error


def _damaged(error: Exception) -> DamagedError:
    return DamagedError(f"{error}".partition("\n")[0] or type(error).__name__)


_COMPRESSED: dict[bytes, Callable[[BinaryIO], io.IOBase]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(pa.PythonFile(file), "zstd"),
}
"""The first bytes of compressed files, and what reads them."""
_MAGIC_BYTES_MAX = max(map(len, _COMPRESSED))


def is_compressed(raw: BinaryIO) -> bool:
    """Return whether an open file begins like a compressed one."""
    raw.seek(0)
    return raw.read(_MAGIC_BYTES_MAX).startswith(tuple(_COMPRESSED))


def _decompressed(raw: BinaryIO) -> BinaryIO:
    raw.seek(0)
    start = raw.read(_MAGIC_BYTES_MAX)
    raw.seek(0)
    for magic, opened in _COMPRESSED.items():
        if start.startswith(magic):
            return cast("BinaryIO", opened(raw))
    return raw


def is_text(path: Path) -> bool:
    """Return whether the decompressed beginning of a file is text.

    Raises:
        PermissionError: the file may not be read.
        DamagedError: the beginning cannot be read.
    """
    return looks_like_text(next(blocks(path, PROBE_BYTES), b""))


def looks_like_text(start: bytes) -> bool:
    """Return whether the decompressed beginning of a file is text."""
    control = len(start) - len(start.translate(None, _CONTROL))
    return control <= CONTROL_SHARE_MAX * len(start)


class End:
    """Says whether a content ends within a line."""

    def __init__(self) -> None:
        self.cut_at_bytes: int | None = None
        """The size of the content, when its last line was yielded, and has no line break."""

    def found(self, size_bytes: int) -> None:
        """Note that the last line has no line break."""
        self.cut_at_bytes = size_bytes


def lines(parts: Iterable[bytes], end: End | None = None) -> Iterator[bytes]:
    """Yield the lines of a content, without line breaks; also a last line that has none."""
    rest: list[bytes] = []
    size_bytes = 0
    for part in parts:
        size_bytes += len(part)
        first, *more = part.split(b"\n")
        rest.append(first)
        if more:
            yield b"".join(rest)
            yield from more[:-1]
            rest = [more[-1]]
    last = b"".join(rest)
    if last:
        if end is not None:
            end.found(size_bytes)
        yield last


def after(path: Path, start_bytes: int) -> Iterator[bytes]:
    """Yield the decompressed content of a file after its first bytes.

    Raises:
        PermissionError, DamagedError: see `blocks`.
    """
    left = start_bytes
    for block in blocks(path):
        if len(block) > left:
            yield block[left:]
        left = max(0, left - len(block))
