"""Markers are reported as written when they are committed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.broker.support import Flushes, partition_of

from odradek.broker.coordinator.markers import MarkerWriter
from odradek.broker.partitions.partition import Partition
from odradek.core.transaction.markers import Marker
from odradek.env.clock import SystemClock
from odradek.log.errors import DiskFull
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition


def marker(*indexes: int) -> Marker:
    return Marker(7, 0, 0, True, 2, [TopicPartition("orders", index) for index in indexes])


def writer(*partitions: Partition, timeout_ms: int = 30_000) -> MarkerWriter:
    replicas: Any = SimpleNamespace(by_name={"orders": dict(enumerate(partitions))})
    groups: Any = None
    return MarkerWriter(replicas, groups, SystemClock(), asyncio.get_running_loop(), timeout_ms)


def test_a_marker_that_is_committed_at_once_is_answered_at_once(tmp_path: Path) -> None:
    async def go() -> None:
        partition = partition_of(tmp_path, topic="orders")
        assert writer(partition).write(marker(0)) == {TopicPartition("orders", 0): ErrorCode.NONE}
        assert partition.log.high_watermark == 1

    asyncio.run(go())


@pytest.mark.parametrize(
    ("error", "code"), [(None, ErrorCode.NONE), (DiskFull("full"), ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_a_marker_is_answered_once_it_is_committed(
    error: DiskFull | None, code: ErrorCode, tmp_path: Path
) -> None:
    async def go() -> None:
        flushes = Flushes()
        slow = partition_of(tmp_path / "slow", flushes=flushes, topic="orders", flush_messages=1)
        quick = partition_of(tmp_path / "quick", topic="orders", index=1)
        results = writer(slow, quick).write(marker(0, 1))
        assert isinstance(results, asyncio.Task)
        await asyncio.sleep(0)
        assert not results.done()
        assert slow.log.log_end_offset == 1
        if error is None:
            flushes.succeed()
        else:
            flushes.fail(error)
        assert await results == {
            TopicPartition("orders", 0): code,
            TopicPartition("orders", 1): ErrorCode.NONE,
        }

    asyncio.run(go())


def test_a_marker_that_is_not_committed_in_time(tmp_path: Path) -> None:
    async def go() -> None:
        flushes = Flushes()
        slow = partition_of(tmp_path / "slow", flushes=flushes, topic="orders", flush_messages=1)
        quick = partition_of(tmp_path / "quick", topic="orders", index=1)
        results = writer(slow, quick, timeout_ms=1).write(marker(0, 1))
        assert isinstance(results, asyncio.Task)
        assert await results == {
            TopicPartition("orders", 0): ErrorCode.REQUEST_TIMED_OUT,
            TopicPartition("orders", 1): ErrorCode.NONE,
        }
        flushes.succeed()  # the commit comes after the response, and is ignored
        assert slow.log.high_watermark == 1

    asyncio.run(go())
