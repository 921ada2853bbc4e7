"""Records that left the page cache are read by a thread before they are sent."""

import os
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.env.file_system import OsFileSystem
from odradek.testing import Broker

COUNT = 400


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
