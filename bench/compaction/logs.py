"""Creates, opens, copies and reads the log that is cleaned."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from odradek.config.broker_config import BrokerConfig
from odradek.config.load import load
from odradek.env.clock import SystemClock
from odradek.env.file_system import OsFileSystem
from odradek.env.randomness import system_random_bytes
from odradek.log import LogDirectory, PartitionLog, Storage, open_log
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import HEADER_SIZE, RECORD_BATCH_HEADER, iterate_batches
from odradek.records.builder import seal
from odradek.records.compression import Codec, compress
from odradek.records.record import iterate_records
from odradek.records.varint import append_varint

PARTITION = TopicPartition("compacted", 0)
SETTINGS = {"cleanup.policy": "compact"}
BATCH_RECORDS = 150
VALUE_SIZE = 100


def config_for(path: Path) -> BrokerConfig:
    """Return the default settings with the data directory `path`."""
    config, _ = load(None, {}, data_directory=str(path))
    return config


def open_directory(path: Path) -> PartitionLog:
    """Open the log of `PARTITION` in a data directory. Create it if it does not exist."""
    storage = Storage(OsFileSystem(), SystemClock(), system_random_bytes)
    return open_log(
        storage,
        LogDirectory(str(path)),
        PARTITION,
        config_for(path).topic_config(SETTINGS),
        topic_id=bytes(range(16)),
        recovery_point=2**62,
        was_clean=True,
    )


def fill(log: PartitionLog, records: int, keys: int, codec: Codec) -> int:
    """Append the records, and roll the segment. Return the size of the log before that."""
    draw = random.Random(1)
    text = draw.randbytes(VALUE_SIZE * 40).hex().encode()
    now = time.time_ns() // 1_000_000
    for base in range(0, records, BATCH_RECORDS):
        count = min(BATCH_RECORDS, records - base)
        payload = bytearray()
        for number in range(count):
            start = draw.randrange(len(text) - VALUE_SIZE)
            record = bytearray(b"\0\0")
            append_varint(record, number)
            record += b"\x18%012d" % draw.randrange(keys)
            record += b"\xc8\x01" + text[start : start + VALUE_SIZE] + b"\0"
            append_varint(payload, len(record))
            payload += record
        log.append_as_leader(_batch(payload, count, codec, now), 0)
    log.high_watermark = log.log_end_offset
    size = log.size
    log.roll()
    return size


def _batch(payload: bytearray, count: int, codec: Codec, now: int) -> bytearray:
    compressed = compress(codec, payload)
    batch = bytearray(HEADER_SIZE)
    batch += compressed
    fields = (0, len(batch) - 12, -1, 2, 0, codec, count - 1, now, now, -1, -1, -1, count)
    RECORD_BATCH_HEADER.pack_into(batch, 0, *fields)
    seal(batch)
    return batch


def copy(origin: Path, destination: Path) -> None:
    """Copy a log. Inactive `.log` files are linked: a cleaner replaces them, but does not change
    them."""
    directory = origin / str(PARTITION)
    active = max(directory.glob("*.log"))

    def link(source: str, target: str) -> str:
        is_inactive = source.endswith(".log") and Path(source) != active
        (os.link if is_inactive else shutil.copy2)(source, target)
        return target

    shutil.copytree(origin, destination, copy_function=link)


def content(log: PartitionLog) -> Iterator[tuple[object, ...]]:
    """Yield offset, timestamp, key and value of all records."""
    for segment in log.segments:
        with open(segment.path(".log"), "rb") as file:
            for batch in iterate_batches(file.read()):
                for record in iterate_records(batch):
                    yield record[:4]
