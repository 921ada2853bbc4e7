"""Records that left the page cache are read by a thread before they are sent."""

import asyncio
import errno
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.broker.cold_reads import BUFFER_BYTES, ColdReads
from odradek.env.file_range import BufferedRange, FileRange
from odradek.env.file_system import OsFileSystem
from odradek.log.storage import run_now
from odradek.testing import Broker
from odradek.wire.generated.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

COUNT = 400
CONTENT = random.Random(6).randbytes(2 * BUFFER_BYTES + 777)


class Cold(OsFileSystem):
    """No file is in the page cache."""

    def is_resident(self, descriptor: int, position: int, length: int) -> bool:
        return False

    def open_direct(self, path: str, flags: int = os.O_RDONLY) -> int | None:
        return os.open(path, os.O_RDONLY)  # a temporary directory may have no other reads


class Incapable(Cold):
    """Nor can any be read past it."""

    def open_direct(self, path: str, flags: int = os.O_RDONLY) -> int | None:
        return None


class WithoutProc(Cold):
    """Nor can an open file be opened again."""

    def open_direct(self, path: str, flags: int = os.O_RDONLY) -> int | None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


class Refusing(Cold):
    """Reads past it end with this error."""

    def __init__(self, failure: int) -> None:
        self.failure = failure

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        raise OSError(self.failure, os.strerror(self.failure))


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    descriptor = os.open(path, os.O_RDONLY)
    path.unlink()  # as a segment that is deleted while a reader is in it
    yield descriptor
    os.close(descriptor)


def warmed(reads: ColdReads, loop: asyncio.AbstractEventLoop, *ranges: FileRange) -> FetchResponse:
    """What becomes of an answer with these ranges."""
    partitions = [PartitionData(records=each) for each in ranges]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    answer = reads.warm(response)
    return loop.run_until_complete(answer) if isinstance(answer, asyncio.Future) else answer


def records_of(response: FetchResponse) -> list[FileRange]:
    return [each.records for each in response.responses[0].partitions]


def sent(part: FileRange) -> bytes:
    """The bytes that a connection would send."""
    if isinstance(part, BufferedRange):
        return bytes(part.memory[part.position : part.position + part.length])
    return os.pread(part.descriptor, part.length, part.position)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize(
    ("position", "length"),
    [(0, 1), (4095, 2), (4096, 4096), (12_345, 1 << 20), (len(CONTENT) - 3, 3)],
)
@pytest.mark.parametrize(
    "files", [Cold(), OsFileSystem(), Incapable(), Refusing(errno.EINVAL), Refusing(errno.EIO)]
)
def test_a_range_stays_what_it_is(descriptor, loop, files, position, length):
    reads = ColdReads(files, run_now, loop)
    response = warmed(reads, loop, FileRange(descriptor, position, length, None))
    (part,) = records_of(response)
    assert len(part) == length
    assert sent(part) == CONTENT[position : position + length]
    assert isinstance(part, BufferedRange) == (type(files) is Cold)


def test_a_file_that_cannot_be_opened_again_is_read_all_the_same(descriptor, loop):
    def at_once(work, done):
        work()  # it must not fail: then nobody would have read the range
        done(None)

    reads = ColdReads(WithoutProc(), at_once, loop)
    (part,) = records_of(warmed(reads, loop, FileRange(descriptor, 5, 10_000, None)))
    assert sent(part) == CONTENT[5:10_005]


def test_what_has_no_buffer_goes_through_the_page_cache(descriptor, loop):
    reads = ColdReads(Cold(), run_now, loop, buffers=2)
    long = FileRange(descriptor, 1, BUFFER_BYTES, None)
    short = [FileRange(descriptor, 5000 * n, 10_000, None) for n in range(4)]
    parts = records_of(warmed(reads, loop, long, *short))
    assert [isinstance(part, BufferedRange) for part in parts] == [False, True, True, False, False]
    for part, given in zip(parts, [long, *short], strict=True):
        assert sent(part) == CONTENT[given.position : given.position + given.length]


def test_a_buffer_is_used_again_only_when_its_range_is_gone(descriptor, loop):
    reads = ColdReads(Cold(), run_now, loop, buffers=1)

    def read(position: int) -> FileRange:
        (part,) = records_of(warmed(reads, loop, FileRange(descriptor, position, 9000, None)))
        return part

    first = read(100)
    second = read(200)
    assert [type(first), type(second)] == [BufferedRange, FileRange]
    assert sent(first) == CONTENT[100:9100]
    del first
    third = read(300)
    assert isinstance(third, BufferedRange)
    assert sent(third) == CONTENT[300:9300]


def test_a_file_that_ends_before_the_range_is_left_to_the_connection(descriptor, loop):
    reads = ColdReads(Cold(), run_now, loop)
    given = FileRange(descriptor, len(CONTENT) - 10, 11, None)
    assert records_of(warmed(reads, loop, given)) == [given]


def drop_from_page_cache(path: Path) -> bool:
    """Whether the file has left the page cache: not every file system can do that."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return not OsFileSystem().is_resident(descriptor, 0, path.stat().st_size)
    finally:
        os.close(descriptor)


def test_cold_records_arrive_whole():
    with Broker(topics={"old": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
        values = [os.urandom(10_000) for _ in range(COUNT)]
        for value in values:
            producer.produce("old", value)
        assert producer.flush(20) == 0
        log = Path(broker.data, "old-0", "00000000000000000000.log")
        if not drop_from_page_cache(log):
            pytest.skip("this file system keeps its pages")
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "cold", "log_level": 0}
        )
        consumer.assign([TopicPartition("old", 0, 0)])
        found = []
        deadline = time.monotonic() + 20
        while len(found) < COUNT and time.monotonic() < deadline:
            found += [m.value() for m in consumer.consume(100, 0.5) if m.error() is None]
        consumer.close()
        assert found == values
        assert broker.node.broker.cold_reads.answers > 0
        size = log.stat().st_size
        with log.open("rb") as file:
            assert not OsFileSystem().is_resident(file.fileno(), 0, size), "sent past the cache"
