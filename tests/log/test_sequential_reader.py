"""Recovery reads uncached files with direct I/O."""

from __future__ import annotations

import errno
import os
import random
from contextlib import closing
from pathlib import Path

import pytest
from tests.log.support import LogWorkspace, append, batch, values

from odradek.env.file_system import OsFileSystem, read_file, replace_file
from odradek.log import names, recovery, sequential_reader
from odradek.log.sequential_reader import SequentialReader

CONTENT = random.Random(4).randbytes(50_001)


class Cold(OsFileSystem):
    """A file system without page cache. `direct_reads` counts the reads with direct I/O."""

    def __init__(self, failure: int = 0) -> None:
        self.failure = failure
        self.direct_reads = 0

    def is_resident(self, descriptor: int, position: int, length: int) -> bool:
        return False

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        if self.failure:
            raise OSError(self.failure, os.strerror(self.failure))
        self.direct_reads += 1
        return super().read_into(descriptor, buffer, position)


class Incapable(Cold):
    """A file system without direct I/O."""

    def open_direct(self, path: str, flags: int = os.O_RDONLY) -> int | None:
        return None


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use direct I/O for files of any size, in many pieces."""
    monkeypatch.setattr(sequential_reader, "WORTHWHILE_BYTES", 0)
    monkeypatch.setattr(recovery, "_PIECE", 4096)


def skip_without_direct_reads(path: Path, file_system: OsFileSystem) -> None:
    path.touch()
    descriptor = file_system.open_direct(str(path))
    if descriptor is None:
        pytest.skip("the file system of the temporary directory has no O_DIRECT")
    os.close(descriptor)


@pytest.mark.parametrize("kind", [OsFileSystem, Cold, Incapable])
def test_any_part_is_as_it_is_in_the_file(tmp_path: Path, kind: type[OsFileSystem]) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    file_system = kind()
    draw = random.Random(5)
    descriptor = os.open(path, os.O_RDONLY)
    with closing(SequentialReader(file_system, str(path), descriptor, len(CONTENT))) as reader:
        for _ in range(200):
            start = draw.randrange(len(CONTENT))
            length = draw.choice([1, 100, 4095, 4096, 4097, 30_000])
            found = reader.read(start, length)
            assert CONTENT[start:].startswith(found)
            assert len(found) >= min(length, len(CONTENT) - start)
    os.close(descriptor)


def test_reads_that_the_file_system_refuses_are_done_as_usual(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    skip_without_direct_reads(path, Cold())
    descriptor = os.open(path, os.O_RDONLY)
    with closing(
        SequentialReader(Cold(errno.EINVAL), str(path), descriptor, len(CONTENT))
    ) as reader:
        assert reader.read(7, 100) == CONTENT[7:107]
    with (
        closing(SequentialReader(Cold(errno.EIO), str(path), descriptor, len(CONTENT))) as reader,
        pytest.raises(OSError, match="Input/output"),
    ):
        reader.read(7, 100)
    os.close(descriptor)


@pytest.mark.parametrize("torn_bytes", [0, 1, 4000])
def test_recovery_finds_the_same_either_way(tmp_path: Path, torn_bytes: int) -> None:
    found = []
    for name, file_system in (("usual", OsFileSystem()), ("cold", Cold())):
        directory = tmp_path / name
        skip_without_direct_reads(tmp_path / "probe", file_system)
        workspace = LogWorkspace(directory, file_system)
        log = workspace.open(index_interval_bytes=2000)
        for number in range(100):
            append(log, b"%d" % number * (number * 7 % 3000))
        path = log.active_segment.path(names.LOG)
        content = read_file(file_system, path) + batch(b"x" * 9000)
        replace_file(file_system, path, content[: len(content) - 9000 + torn_bytes])
        log = workspace.reopen(arguments={}, index_interval_bytes=2000)
        offsets = read_file(file_system, log.active_segment.path(names.OFFSET_INDEX))
        found.append((log.log_end_offset, values(log), log.size, offsets))
        if isinstance(file_system, Cold):
            assert file_system.direct_reads > 10
    assert found[0] == found[1]
    assert found[0][0] == 100
