"""Support for tests of logs: a manual clock, settings by keyword, and functions to build
batches."""

from __future__ import annotations

import os.path
import random
from collections.abc import Callable
from pathlib import Path

from odradek.config.load import load
from odradek.config.topic_config import TopicConfig
from odradek.env.executor import Done, InlineExecutor, Pool, Work
from odradek.env.file_system import FileSystem, OsFileSystem
from odradek.log import LogDirectory, LogManager, PartitionLog, Storage, open_log
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import RecordBatch, iterate_batches
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.records.control import EndOfTransaction, end_of_transaction_batch
from odradek.records.record import Record, iterate_records

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("topic", 0)
TOPIC_ID = bytes(range(16))


class StillClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000


class LaterExecutor(InlineExecutor):
    """An executor that passes work to a function of the test."""

    def __init__(self, submit: Callable[[Work, Done], None]) -> None:
        self._submit = submit

    def submit(self, work: Work, done: Done, pool: Pool = Pool.DISK) -> None:
        self._submit(work, done)


BROKER_CONFIG, _ = load(None, {}, data_directory="/nowhere")


def topic_config(**settings: object) -> TopicConfig:
    """Return topic settings. The argument `segment_bytes=1000` sets `segment.bytes`."""
    overrides = {name.replace("_", "."): str(value) for name, value in settings.items()}
    if "segment.bytes" in overrides:
        overrides["internal.segment.bytes"] = overrides.pop("segment.bytes")
    return TopicConfig(overrides, BROKER_CONFIG.layers)


class LogWorkspace:
    """A directory, a clock and the logs that a test opens in it."""

    def __init__(self, path: Path | str, file_system: FileSystem | None = None) -> None:
        self.path = str(path)
        self.file_system = file_system or OsFileSystem()
        self.clock = StillClock()
        self.directory = LogDirectory(self.path)
        self.storage = self.new_storage()
        self.file_system.make_directory(self.path)
        self.file_system.sync_directory(os.path.dirname(self.path))

    def new_storage(self, **arguments: object) -> Storage:
        randomness = random.Random(1).randbytes
        return Storage(self.file_system, self.clock, randomness, **arguments)

    def open(self, partition: TopicPartition = PARTITION, **settings: object) -> PartitionLog:
        """Open a log as after a crash, with recovery point 0, or create it."""
        return self.reopen(partition, {}, **settings)

    def reopen(
        self,
        partition: TopicPartition = PARTITION,
        arguments: dict | None = None,
        **settings: object,
    ) -> PartitionLog:
        """Open a log with these arguments of `open_log`."""
        log = open_log(
            self.storage,
            self.directory,
            partition,
            topic_config(**settings),
            topic_id=TOPIC_ID,
            **(arguments or {}),
        )
        log.high_watermark = log.log_end_offset
        return log

    def files(self, partition: TopicPartition = PARTITION) -> list[str]:
        return sorted(entry.name for entry in self.file_system.scan(f"{self.path}/{partition}"))

    def manager(self, paths: list[str] | None = None, **arguments: object) -> LogManager:
        overrides = {"log.dirs": ",".join(paths or [self.path])}
        overrides |= arguments.pop("overrides", {})
        config, _ = load(None, overrides, data_directory="/nowhere")
        configs = arguments.pop("topic_configs", lambda topic: config.topic_config({}))
        return LogManager(
            config,
            self.file_system,
            self.clock,
            random.Random(2).randbytes,
            topic_configs=configs,
            **arguments,
        )


def batch(
    *values: bytes | tuple[bytes | None, bytes | None],
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    **fields: object,
) -> bytearray:
    """Build a batch. A value without a tuple has no key."""
    builder = RecordBatchBuilder(codec=codec, **fields)
    for value in values or (b"value",):
        key, content = value if isinstance(value, tuple) else (None, value)
        builder.append(timestamp, key, content)
    return builder.build()


def append(log: PartitionLog, *values: bytes, epoch: int = 0, **fields: object):
    """Append a batch as a client, and set the high watermark."""
    info = log.append_as_leader(batch(*values, **fields), epoch)
    log.high_watermark = log.log_end_offset
    return info


def end_transaction(
    log: PartitionLog,
    committed: bool,
    producer_id: int,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    replicated: bool = True,
):
    """Append a transaction marker."""
    batch = end_of_transaction_batch(
        committed,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=NOW_MS,
    )
    marker = EndOfTransaction(committed, coordinator_epoch)
    info = log.appender.append_marker(batch, marker, log.leader_epoch, 0)
    if replicated:
        log.high_watermark = log.log_end_offset
    return info


def read_bytes(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, **arguments) -> bytes:
    """Read, and return the bytes."""
    arguments.setdefault("limit", log.log_end_offset)
    data = log.read(offset, max_bytes, **arguments)
    if data is None:
        return b""
    found = data.records
    return log.storage.file_system.pread(found.descriptor, found.length, found.position)


def read_batches(log: PartitionLog, offset: int = 0, **arguments) -> list[RecordBatch]:
    """Return all batches from an offset on."""
    batches: list[RecordBatch] = []
    while data := read_bytes(log, offset, **arguments):
        found = list(iterate_batches(data))
        for each in found:
            each.check()
        batches += found
        offset = found[-1].next_offset
    return batches


def read_records(log: PartitionLog, offset: int = 0, **arguments) -> list[Record]:
    """Return all records from an offset on."""
    return [
        record
        for each in read_batches(log, offset, **arguments)
        for record in iterate_records(each)
        if record.offset >= offset
    ]


def values(log: PartitionLog, offset: int = 0) -> list[bytes | None]:
    """Return the values of all records from an offset on."""
    return [record.value for record in read_records(log, offset)]
