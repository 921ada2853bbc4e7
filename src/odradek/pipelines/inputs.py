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
    left = limit
    try:
        with path.open("rb") as raw:
            file = _decompressed(raw)
            # `read` loses what it has when it comes to the damage of a file.
            read = getattr(file, "read1", file.read)
            while left is None or left > 0:
                block = read(BLOCK_BYTES if left is None else min(left, BLOCK_BYTES))
                if not block:
                    return
                left = None if left is None else left - len(block)
                yield block
    except PermissionError:
        raise
    except _DAMAGED as error:
        raise DamagedError(f"{error}".partition("\n")[0] or type(error).__name__) from error


def _decompressed(raw: BinaryIO) -> BinaryIO:
    start = raw.read(6)
    raw.seek(0)
    kinds: dict[bytes, Callable[[BinaryIO], io.IOBase]] = {
        b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
        b"BZh": bz2.BZ2File,
        b"\xfd7zXZ\x00": lzma.LZMAFile,
        b"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(pa.PythonFile(file), "zstd"),
    }
    for magic, opened in kinds.items():
        if start.startswith(magic):
            return cast("BinaryIO", opened(raw))
    return raw


def is_text(path: Path) -> bool:
    """Return whether the decompressed beginning of a file is text.

    Raises:
        PermissionError: the file may not be read.
        DamagedError: the beginning cannot be read.
    """
    start = next(blocks(path, PROBE_BYTES), b"")
    control = len(start) - len(start.translate(None, _CONTROL))
    return control <= CONTROL_SHARE_MAX * len(start)


def lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a content, without line breaks; also a last line that has none."""
    rest: list[bytes] = []
    for part in parts:
        first, *more = part.split(b"\n")
        rest.append(first)
        if more:
            yield b"".join(rest)
            yield from more[:-1]
            rest = [more[-1]]
    last = b"".join(rest)
    if last:
        yield last
