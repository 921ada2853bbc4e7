"""Measures the CPU time of appends and reads in Odradek's code: `python -m bench.log_micro`.

The output has the microseconds of CPU time per operation, as the median of several rounds. Appends
are measured twice: with the real file system, and without the system calls of writes.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

from odradek.config.load import load
from odradek.env.clock import SystemClock
from odradek.env.file_system import Buffer, OsFileSystem
from odradek.env.randomness import system_random_bytes
from odradek.log import LogDirectory, PartitionLog, Storage, open_log
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import BASE_OFFSET, RECORD_BATCH_HEADER
from odradek.records.builder import RecordBatchBuilder, seal
from odradek.records.checksum import crc32c
from odradek.records.compiled import COMPILED
from odradek.records.compression import Codec

ROUNDS = 7
KIB_64 = 65_536
ONE = [bytes(100)]


class UnwritingFileSystem(OsFileSystem):
    """A file system that drops writes. The remaining time is the time of Odradek's own code."""

    __slots__ = ()

    @staticmethod
    def pwrite(_descriptor: int, data: Buffer, _position: int) -> int:  # type: ignore[override]
        """See `FileSystem`."""
        return len(data)


def make_batch(
    values: Sequence[bytes], producer: bool = False, codec: Codec = Codec.NONE
) -> bytearray:
    """Return a batch of records. With `producer` the batch has a producer id and a sequence."""
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0} if producer else {}
    builder = RecordBatchBuilder(codec=codec, **fields)  # type: ignore[arg-type]
    now = time.time_ns() // 1_000_000
    for value in values:
        builder.append(now, None, value)
    return builder.build()


def words_of(sizes: Sequence[int]) -> list[bytes]:
    """Return values of these sizes. Codecs compress them to about a third."""
    chance = random.Random(1)
    words = [chance.randbytes(6).hex().encode() for _ in range(200)]
    return [b" ".join(chance.choices(words, k=1 + size // 13))[:size] for size in sizes]


def uniform() -> list[bytes]:
    """Return 64 KB of values of 40 to 160 bytes."""
    chance = random.Random(2)
    return words_of([chance.randrange(40, 161) for _ in range(KIB_64 // 110)])


def long_tailed() -> list[bytes]:
    """Return 64 KB of values of 30 bytes to 10 KB. Half of the values are below 100 bytes."""
    chance = random.Random(3)
    sizes = [min(int(30 * chance.paretovariate(0.6)), 10_000) for _ in range(2_000)]
    total = 0
    for count, size in enumerate(sizes):
        total += size + 10
        if total > KIB_64:
            return words_of(sizes[:count])
    raise AssertionError("enough values for 64 KB")


def open_new(file_system: OsFileSystem, path: str, name: str) -> PartitionLog:
    """Return an empty log with the default settings."""
    config, _ = load(None, {}, data_directory=path)
    storage = Storage(file_system, SystemClock(), system_random_bytes)
    return open_log(
        storage,
        LogDirectory(path),
        TopicPartition(name, 0),
        config.topic_config({}),
        topic_id=bytes(16),
    )


def timed(operation: Callable[[int], object], count: int) -> float:
    """Return the CPU time per call in microseconds."""
    begin = time.process_time()
    for number in range(count):
        operation(number)
    return (time.process_time() - begin) / count * 1e6


def median(rounds: Sequence[float]) -> str:
    """Return the median as text, such as `3.14 µs`."""
    return f"{statistics.median(rounds):6.2f} µs"


def appender(log: PartitionLog, payload: bytearray, producer: bool) -> Callable[[int], None]:
    """Return a function that appends the payload, as if the payload had just been received."""
    view = memoryview(payload)
    header = list(RECORD_BATCH_HEADER.unpack_from(payload))
    prepared = []
    if producer:
        for number in range(1024):  # the checksum covers the sequence number
            header[11] = number * header[12]
            RECORD_BATCH_HEADER.pack_into(payload, 0, *header)
            seal(payload)
            prepared.append(bytes(payload[:61]))

    def append(number: int) -> None:
        if producer:
            view[:61] = prepared[number % 1024]
            if number % 1024 == 0:
                log.producers.clear()
        BASE_OFFSET.pack_into(view, 0, 0)
        log.append_as_leader(view, 0)

    return append


def main() -> None:
    """Measure all cases, and print the results."""
    cases = (
        ("one record of 100 bytes", make_batch(ONE), False, 50_000),
        ("the same, idempotent", make_batch(ONE, True), True, 50_000),
        ("64 KB of records of 100 bytes", make_batch(ONE * 590), False, 3_000),
        ("the same, idempotent", make_batch(ONE * 590, True), True, 3_000),
        ("64 KB of records of 1000 bytes", make_batch([bytes(1000)] * 64), False, 3_000),
        ("64 KB of records of 30 B to 10 KB", make_batch(long_tailed()), False, 1_000),
        ("64 KB of records of 40 to 160 bytes", make_batch(uniform()), False, 1_000),
        ("the same, idempotent", make_batch(uniform(), True), True, 1_000),
        *(
            (
                f"the same, {codec.name.lower()}",
                make_batch(uniform(), False, codec),
                False,
                1_000,
            )
            for codec in Codec
            if codec
        ),
    )
    with tempfile.TemporaryDirectory() as path:
        print("compiled" if COMPILED else "pure Python")
        print(f"{'append':36} {'CPU':>10} {'our code':>12}   (of which CRC)")
        for number, (name, payload, producer, count) in enumerate(cases):
            whole: list[float] = []
            own: list[float] = []
            for _ in range(ROUNDS):
                for file_system, results in ((OsFileSystem(), whole), (UnwritingFileSystem(), own)):
                    log = open_new(file_system, path, f"append-{number}-{len(own)}-{len(whole)}")
                    results.append(timed(appender(log, payload, producer), count))
                    log.go_offline()
            crc = timed(lambda _, data=payload: crc32c(memoryview(data)[21:]), count)  # type: ignore[misc]
            print(f"{name:36} {median(whole):>10} {median(own):>12}   ({crc:.2f} µs)")
        print_reads(path)


def print_reads(path: str) -> None:
    """Measure reads of the last batch, of a batch shortly before it, and of batches anywhere."""
    log = open_new(OsFileSystem(), path, "read")
    append = appender(log, make_batch(ONE), False)
    for number in range(100_000):
        append(number)
    end = log.log_end_offset
    log.high_watermark = end
    print(f"{'read':36} {'CPU':>10}")
    for name, first in (("the last batch", end - 1), ("ten batches back", end - 10)):
        rounds = [
            timed(lambda _, offset=first: log.read(offset, 1 << 20, end), 100_000)  # type: ignore[misc]
            for _ in range(ROUNDS)
        ]
        print(f"{name:36} {median(rounds):>10}")
    rounds = [
        timed(lambda number: log.read(number * 7919 % end, 1 << 20, end), 5_000)
        for _ in range(ROUNDS)
    ]
    print(f"{'anywhere, by the index':36} {median(rounds):>10}")
    data = log.read(0, 1 << 20, end)
    assert data is not None
    is_resident, place = log.storage.file_system.is_resident, data.records
    resident = [
        timed(lambda _: is_resident(place.descriptor, place.position, place.length), 20_000)
        for _ in range(3)
    ]
    print(f"{'is 1 MB in the page cache?':36} {median(resident):>10}")


if __name__ == "__main__":
    main()
