"""A share partition that is given only the batches it needs acquires the same records."""

from __future__ import annotations

import contextlib
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.share.histories import LOCK_MS, MEMBERS, Log

from odradek.broker.share.records import PIECE_BYTES, SMALL_BYTES, Extent, fetched_batches
from odradek.core.share.acknowledgement import AcknowledgementBatch
from odradek.core.share.acquisition import FetchedBatch, Request
from odradek.core.share.partition import SharePartition
from odradek.core.share.states import RecordState, ShareSettings, StateBatch
from odradek.env.file_range import FileRange
from odradek.env.file_system import OsFileSystem
from odradek.model.errors import ApiError
from odradek.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_POSITION

OFFSETS = 600
OPERATIONS = 60


class Stored:
    """Batches in a file."""

    def __init__(self, draw: random.Random, path: Path) -> None:
        log = Log(draw)
        log.grow(OFFSETS)
        self._batches = [batch for batch, _ in log.batches]
        path.write_bytes(b"".join(data for _, data in log.batches))
        self._size = path.stat().st_size
        self.descriptor = os.open(path, os.O_RDONLY)

    def read(self, offset: int, extent: Extent | None) -> list[FetchedBatch]:
        """Return the batches from the one with `offset` on."""
        position = sum(each.size for each in self._batches if each.last_offset < offset)
        records = FileRange(self.descriptor, position, self._size - position, self)
        return fetched_batches(OsFileSystem(), records, extent)


@pytest.fixture
def draw_and_log(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[random.Random, Stored]]:
    draw = random.Random(request.param)
    stored = Stored(draw, tmp_path / "log")
    yield draw, stored
    os.close(stored.descriptor)


@pytest.mark.parametrize("draw_and_log", range(10), indirect=True)
def test_the_batches_that_are_left_out_make_no_difference(
    draw_and_log: tuple[random.Random, Stored],
) -> None:
    draw, log = draw_and_log
    settings = ShareSettings(LOCK_MS, draw.choice((2, 5)), draw.choice((20, 100, 2000)), True)
    machines = [SharePartition(0, lambda: settings) for _ in range(2)]
    start = draw.choice((0, 40))
    state = draw.choice((RecordState.AVAILABLE, RecordState.ACKNOWLEDGED))
    loaded = [StateBatch(start + 10, start + 19, state, 1)]  # there is a gap before it
    loaded = draw.choice(([], loaded))
    for machine in machines:
        machine.begin_loading()
        machine.load(0, start, loaded)
    whole, least = machines
    left_out = 0
    held: list[tuple[str, int, int]] = []
    for now_ms in range(0, OPERATIONS * 100, 100):
        offset = whole.acquirable_from()
        assert least.acquirable_from() == offset
        if draw.random() < 0.5 and offset is not None:
            records_max = draw.choice((1, 5, 50))
            request = Request(
                draw.choice(MEMBERS), draw.random() < 0.3, draw.choice((1, 10)), records_max
            )
            everything = log.read(offset, None)
            needed = log.read(offset, Extent(max(offset, least.end_offset + 1), records_max))
            assert needed == everything[: len(needed)]
            left_out += len(everything) - len(needed)
            acquired = whole.acquire(request, offset, everything, (), now_ms)
            assert least.acquire(request, offset, needed, (), now_ms) == acquired
            held += [
                (request.member_id, each.first_offset, each.last_offset)
                for each in acquired.records
            ]
        elif held and draw.random() < 0.8:
            member, first, last = held.pop(draw.randrange(len(held)))
            batch = AcknowledgementBatch(first, last, [draw.choice((1, 1, 2, 3))])
            for machine in machines:
                with contextlib.suppress(ApiError):  # the lock has expired
                    machine.complete(machine.acknowledge(member, [batch], now_ms))
        else:
            for machine in machines:
                machine.expire(now_ms)
                machine.advance()
        assert least.states() == whole.states()
        assert least.start_offset == whole.start_offset
    assert left_out


@pytest.mark.parametrize("seed", range(10))
def test_batches_of_all_sizes_are_found(seed: int, tmp_path: Path) -> None:
    """After a large batch only a header is read, after a small one as much as has many headers."""
    draw = random.Random(seed)
    data, wanted = bytearray(), []
    for number in range(60):
        size = draw.choice((70, 200, SMALL_BYTES - 1, SMALL_BYTES, PIECE_BYTES, 70_000))
        header = bytearray(HEADER_SIZE)
        header[:12] = struct.pack(">qi", 2 * number, size - LOG_OVERHEAD)
        header[MAGIC_POSITION] = MAGIC
        header[23:27] = struct.pack(">i", 1)
        data += header + bytes(size - HEADER_SIZE)
        wanted.append((2 * number, 2 * number + 1, size))
    cut = draw.choice((0, 1, size - 1))
    path = tmp_path / "log"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        records = FileRange(descriptor, 0, len(data) - cut, None)
        found = fetched_batches(OsFileSystem(), records)
    finally:
        os.close(descriptor)
    assert [each[:3] for each in found] == wanted[: 60 - (cut > 0)]
