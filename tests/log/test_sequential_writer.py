"""The cleaner writes its segments with direct I/O."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.log.test_sequential_reader import skip_without_direct_reads

from odradek.env.file_system import CREATE_EMPTY, READ_ONLY, Buffer, OsFileSystem
from odradek.log import sequential_writer
from odradek.log.sequential_writer import SequentialWriter

CONTENT = random.Random(6).randbytes(100_001)
PIECE = 8192


class Watched(OsFileSystem):
    """Counts the writes with direct I/O. Each may fail or write only a part."""

    def __init__(self, failure: int = 0, takes: int = PIECE) -> None:
        self.failure = failure
        self.takes = takes
        self.direct = -1
        self.direct_writes = 0

    def open_direct(self, path: str, flags: int = READ_ONLY) -> int | None:
        descriptor = super().open_direct(path, flags)
        self.direct = -1 if descriptor is None else descriptor
        return descriptor

    def pwrite(self, descriptor: int, data: Buffer, position: int) -> int:  # type: ignore[override]
        if descriptor != self.direct:
            return os.pwrite(descriptor, data, position)
        if self.failure:
            raise OSError(self.failure, os.strerror(self.failure))
        self.direct_writes += 1
        return os.pwrite(descriptor, memoryview(data)[: self.takes], position)


class Incapable(Watched):
    """A file system without direct I/O."""

    def open_direct(self, path: str, flags: int = READ_ONLY) -> int | None:
        return None


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write each file in many pieces."""
    monkeypatch.setattr(sequential_writer, "PIECE_BYTES", PIECE)


def pieces(content: bytes) -> Iterator[bytes]:
    draw = random.Random(7)
    while content:
        length = draw.choice([1, 61, 4096, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
        yield content[:length]
        content = content[length:]


def write(file_system: OsFileSystem, path: Path, content: bytes) -> int:
    """Write the content in pieces. Return the number of bytes reported as written."""
    descriptor = file_system.open(str(path), CREATE_EMPTY)
    with closing(SequentialWriter(file_system, str(path), descriptor)) as writer:
        written = added = 0
        for piece in pieces(content):
            written += writer.add(piece)
            added += len(piece)
            assert writer.size == added
        written += writer.finish()
    os.close(descriptor)
    return written


@pytest.mark.parametrize(
    "file_system",
    [Watched(), Watched(failure=errno.EINVAL), Watched(takes=4096), Incapable()],
    ids=["direct", "refused", "short", "incapable"],
)
@pytest.mark.parametrize("length", [0, 1, PIECE - 1, PIECE, PIECE + 1, len(CONTENT)])
def test_the_file_holds_what_was_added(tmp_path: Path, file_system: Watched, length: int) -> None:
    content = CONTENT[:length]
    assert write(file_system, tmp_path / "file", content) == length
    assert (tmp_path / "file").read_bytes() == content


def test_pieces_go_past_the_page_cache(tmp_path: Path) -> None:
    skip_without_direct_reads(tmp_path / "probe", OsFileSystem())
    file_system = Watched()
    write(file_system, tmp_path / "file", CONTENT)
    assert file_system.direct_writes == len(CONTENT) // PIECE


def test_a_device_that_fails_is_not_asked_in_another_way(tmp_path: Path) -> None:
    skip_without_direct_reads(tmp_path / "probe", OsFileSystem())
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as caught:
        write(Watched(failure=errno.EIO), tmp_path / "file", CONTENT)
    assert caught.value.errno == errno.EIO
