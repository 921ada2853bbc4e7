"""Records that are not in the page cache are read by a thread before they are sent."""

import asyncio
import errno
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.broker.partitions.cold_reads import BUFFER_BYTES, ColdReads
from odradek.broker.partitions.delayed_fetch import DelayedFetch
from odradek.env.clock import SystemClock
from odradek.env.executor import Executor, InlineExecutor, Pool
from odradek.env.file_range import BufferedRange, FileRange
from odradek.env.file_system import NonBlockingFileSystem, OsFileSystem
from odradek.env.page_cache import ReadWouldBlock
from odradek.env.randomness import system_random_bytes
from odradek.log.storage import Storage
from odradek.testing import Broker
from odradek.wire.generated.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

COUNT = 400
CONTENT = random.Random(6).randbytes(2 * BUFFER_BYTES + 777)


class Cold(OsFileSystem):
    """No file is in the page cache, whatever was loaded."""

    def __init__(self) -> None:
        self.loaded: list[tuple[int, int]] = []

    def missing_bytes(self, descriptor: int, position: int, length: int) -> int:
        return length

    def load(self, descriptor: int, position: int, length: int) -> None:
        super().load(descriptor, position, length)
        self.loaded.append((position, length))


class PartlyCold(Cold):
    """Of every range the same number of bytes is missing."""

    def __init__(self, missing: int) -> None:
        super().__init__()
        self.missing = missing

    def missing_bytes(self, descriptor: int, position: int, length: int) -> int:
        return min(length, self.missing)

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
        super().__init__()
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


def storage_of(files: OsFileSystem, executor: Executor | None = None) -> Storage:
    return Storage(files, SystemClock(), system_random_bytes, executor=executor)


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
    reads = ColdReads(storage_of(files), loop)
    response = warmed(reads, loop, FileRange(descriptor, position, length, None))
    (part,) = records_of(response)
    assert len(part) == length
    assert sent(part) == CONTENT[position : position + length]
    assert isinstance(part, BufferedRange) == (type(files) is Cold)


def test_a_file_that_cannot_be_opened_again_is_read_all_the_same(descriptor, loop):
    ends = []

    class Recording(InlineExecutor):
        def submit(self, work, done, pool=Pool.DISK):
            super().submit(work, ends.append, pool)
            done(ends[-1])

    reads = ColdReads(storage_of(WithoutProc(), Recording()), loop)
    (part,) = records_of(warmed(reads, loop, FileRange(descriptor, 5, 10_000, None)))
    assert ends == [None], "a work that fails would not have read the range"
    assert sent(part) == CONTENT[5:10_005]


def test_what_has_no_buffer_goes_through_the_page_cache(descriptor, loop):
    reads = ColdReads(storage_of(Cold()), loop, buffers=2)
    long = FileRange(descriptor, 1, BUFFER_BYTES, None)
    short = [FileRange(descriptor, 11_000 * n, 10_000, None) for n in range(4)]
    parts = records_of(warmed(reads, loop, long, *short))
    assert [isinstance(part, BufferedRange) for part in parts] == [False, True, True, False, False]
    for part, given in zip(parts, [long, *short], strict=True):
        assert sent(part) == CONTENT[given.position : given.position + given.length]


def test_a_buffer_is_used_again_only_when_its_range_is_gone(descriptor, loop):
    reads = ColdReads(storage_of(Cold()), loop, buffers=1)

    def read(position: int) -> FileRange:
        (part,) = records_of(warmed(reads, loop, FileRange(descriptor, position, 9000, None)))
        return part

    first = read(100)
    second = read(20_000)
    assert [type(first), type(second)] == [BufferedRange, FileRange]
    assert sent(first) == CONTENT[100:9100]
    del first
    third = read(40_000)
    assert isinstance(third, BufferedRange)
    assert sent(third) == CONTENT[40_000:49_000]


@pytest.mark.parametrize(
    ("missing", "kind"),
    [(0, FileRange), (4096, FileRange), (50_000, FileRange), (60_000, BufferedRange)],
)
def test_a_range_that_is_mostly_in_memory_gets_only_what_is_missing(
    descriptor, loop, missing, kind
):
    files = PartlyCold(missing)
    given = FileRange(descriptor, 5000, 100_000, None)
    (part,) = records_of(warmed(ColdReads(storage_of(files), loop), loop, given))
    assert type(part) is kind
    assert files.loaded == ([(5000, 100_000)] if kind is FileRange and missing else [])
    assert sent(part) == CONTENT[5000:105_000]


def test_a_second_consumer_of_a_range_has_it_read_into_the_page_cache(descriptor, loop):
    files, owner = Cold(), object()
    reads = ColdReads(storage_of(files), loop)

    def kinds(*positions: int) -> list[type]:
        ranges = [FileRange(descriptor, each, 400_000, owner) for each in positions]
        return [type(part) for each in ranges for part in records_of(warmed(reads, loop, each))]

    assert kinds(0, 390_000, 780_000) == [BufferedRange] * 3  # it reads a cut batch again
    assert files.loaded == []
    assert kinds(0, 395_000, 785_000) == [FileRange] * 3
    assert [position for position, _ in files.loaded] == [0, 395_000, 785_000]
    assert kinds(1_190_000) == [BufferedRange]


def test_a_range_that_a_thread_is_reading_is_waited_for(descriptor, loop):
    work = []

    class Later(InlineExecutor):
        def submit(self, read, done, pool=Pool.DISK):
            work.append((read, done))

    files, owner = PartlyCold(10), object()
    reads = ColdReads(storage_of(files, Later()), loop)

    def answer(position: int) -> object:
        partition = PartitionData(records=FileRange(descriptor, position, 1000, owner))
        topic = FetchableTopicResponse(topic="t", partitions=[partition])
        return reads.warm(FetchResponse(responses=[topic]))

    first = answer(0)
    files.missing = 0  # its pages are there, and not read yet
    assert isinstance(answer(1000), FetchResponse)
    second = answer(500)
    assert isinstance(first, asyncio.Future)
    assert isinstance(second, asyncio.Future)
    for read, done in work:
        read()
        done(None)
    loop.run_until_complete(asyncio.gather(first, second))
    assert isinstance(answer(500), FetchResponse)
    assert [position for position, _ in files.loaded] == [0, 500]


def test_only_what_is_missing_is_read(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    files = OsFileSystem()
    with path.open("rb") as file:
        descriptor = file.fileno()
        assert files.missing_bytes(descriptor, 0, len(CONTENT)) == 0
        if not drop_from_page_cache(path):
            pytest.skip("this file system keeps its pages")
        if files.missing_bytes(descriptor, 0, 200_000) < 200_000:
            pytest.skip("the kernel does not count pages, and a look at some has read others")
        assert files.missing_bytes(descriptor, 4095, 2) == 2
        files.load(descriptor, 50_000, 50_000)  # the pages 12 to 24
        assert files.missing_bytes(descriptor, 50_000, 50_000) == 0
        assert files.missing_bytes(descriptor, 0, 40_960) == 40_960
        assert files.missing_bytes(descriptor, 131_072, 40_960) == 40_960
        files.load(descriptor, 0, 200_000)
        assert files.missing_bytes(descriptor, 0, 200_000) == 0


def test_a_file_that_ends_before_the_range_is_left_to_the_connection(descriptor, loop):
    reads = ColdReads(storage_of(Cold()), loop)
    given = FileRange(descriptor, len(CONTENT) - 10, 11, None)
    assert records_of(warmed(reads, loop, given)) == [given]


def drop_from_page_cache(path: Path) -> bool:
    """Whether the file has left the page cache: not every file system can do that."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
        for _ in range(100):  # pages that the kernel has just touched stay for a moment
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            if not any(
                OsFileSystem().is_resident(descriptor, position, 1)
                for position in range(0, path.stat().st_size, 4096)
            ):
                return True
            time.sleep(0.01)
        return False
    finally:
        os.close(descriptor)


def read_after_drop(path: Path, read: Callable[[], bytes]) -> ReadWouldBlock:
    """Drop the file from the page cache, and return what a read that may not wait raises.

    The kernel starts to read such pages ahead, and a fast device may be done before the read
    returns. Then drop them again.
    """
    for _ in range(100):
        if not drop_from_page_cache(path):
            pytest.skip("this file system keeps its pages")
        try:
            read()
        except ReadWouldBlock as missing:
            return missing
    raise AssertionError("the pages always arrive in time")


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


def test_what_tells_where_records_are_is_never_waited_for_on_the_loop(monkeypatch):
    """Every piece of a file is missing when it is asked for first, and the loop goes on."""
    brought: set[tuple[int, int, int]] = set()
    waited: list[str] = []

    def forgetful(descriptor: int, length: int, position: int) -> bytes:
        piece = (os.fstat(descriptor).st_ino, length, position)
        if piece in brought:
            return os.pread(descriptor, length, position)
        brought.add(piece)
        raise ReadWouldBlock([(os.dup(descriptor), length, position)])

    def waiting(descriptor: int, length: int, position: int) -> bytes:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if "/old-" in name:
            waited.append(f"{name} at {position}")
        return os.pread(descriptor, length, position)

    if not os.path.exists("/proc/self/fd"):
        pytest.skip("no /proc here")
    settings = {"segment.bytes": 1 << 20, "index.interval.bytes": 50_000}
    with Broker() as broker:
        address = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        broker.create_topics({"old": 3}, settings)
        producer = Producer({**address, "batch.num.messages": 3})
        for number in range(3 * COUNT):
            value = str(number // 3).encode() * 3000
            producer.produce("old", value, partition=number % 3, timestamp=1000 + number // 3)
        assert producer.flush(20) == 0
        monkeypatch.setattr(NonBlockingFileSystem, "pread", staticmethod(forgetful))
        monkeypatch.setattr(OsFileSystem, "pread", staticmethod(waiting))
        consumer = Consumer({**address, "group.id": "cold", "max.partition.fetch.bytes": 99_000})
        wanted = [TopicPartition("old", each, 1000 + COUNT // 2) for each in range(3)]
        offsets = [each.offset for each in consumer.offsets_for_times(wanted, 20)]
        assert offsets == [COUNT // 2] * 3
        consumer.assign([TopicPartition("old", each, 0) for each in range(3)])
        found: dict[int, list[int]] = {0: [], 1: [], 2: []}
        deadline = time.monotonic() + 40
        while sum(map(len, found.values())) < 3 * COUNT and time.monotonic() < deadline:
            for message in consumer.consume(100, 0.5):
                assert message.error() is None
                found[message.partition()].append(message.offset())
        consumer.close()
        assert found == {each: list(range(COUNT)) for each in range(3)}
        assert len(brought) > 50
        assert waited == []


def test_a_fetch_that_has_waited_is_looked_at_too(descriptor, loop):
    partition = PartitionData(records=FileRange(descriptor, 5, 10_000, None))
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    reads = ColdReads(storage_of(Cold()), loop)
    fetch = DelayedFetch(lambda final: response, [], 1, 60_000, lambda fetch: None, reads, loop)
    fetch.expire()
    (part,) = records_of(loop.run_until_complete(fetch.future))
    assert isinstance(part, BufferedRange)
    assert sent(part) == CONTENT[5:10_005]


def test_a_search_on_a_failing_disk_meets_the_failure_itself(descriptor, loop):
    def look(_files) -> bytes:
        if len(tried) < 2:
            tried.append(1)
            raise ReadWouldBlock([(os.open("/", os.O_RDONLY), 10, 0)])  # EISDIR
        return b"the failure"

    tried = [1]
    reads = ColdReads(storage_of(OsFileSystem()), loop)
    with pytest.raises(ReadWouldBlock) as missing:
        look(reads.non_blocking)
    assert loop.run_until_complete(reads.look_again(look, missing.value)) == b"the failure"


def test_a_read_takes_what_is_in_memory_and_no_more(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    files = OsFileSystem()
    non_blocking = files.non_blocking()
    with path.open("rb") as file:
        descriptor = file.fileno()
        end = len(CONTENT)
        assert non_blocking.pread(descriptor, 10_000, 4000) == CONTENT[4000:14_000]
        assert non_blocking.pread(descriptor, 100, end - 40) == CONTENT[-40:]
        assert non_blocking.pread(descriptor, 100, end) == b""
        assert files.is_resident(descriptor, 0, end)
        missing = read_after_drop(path, lambda: non_blocking.pread(descriptor, 10_000, 4000))
        missing.read()
        assert non_blocking.pread(descriptor, 10_000, 4000) == CONTENT[4000:14_000]
        assert files.is_resident(descriptor, 4000, 10_000)
        assert not files.is_resident(descriptor, 0, end)
        assert not files.is_resident(descriptor, 0, end), "asking has brought it"


def test_reads_that_nobody_waits_for_leave_no_descriptor(descriptor):
    held = [os.dup(descriptor) for _ in range(3)]
    whole = ReadWouldBlock.all_of(ReadWouldBlock([(each, 1, 0)]) for each in held[:2])
    whole.read()
    ReadWouldBlock([(held[2], 1, 0)])
    for each in held:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(each)
