"""Markers count as written when they are where the topic wants them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.coordinator.markers import Marker, MarkerWriter
from odradek.env.clock import SystemClock
from odradek.log.errors import DiskFull
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition


class Replica:
    """A partition whose flushes the test does."""

    def __init__(self, is_flushed_before_ack: bool) -> None:
        self.log = SimpleNamespace(is_flushed_before_ack=is_flushed_before_ack, log_end_offset=0)
        self.flushes: list[tuple[int, Any]] = []

    def append_marker(self, batch: Any, marker: Any, transaction_version: int) -> None:
        self.log.log_end_offset += 1

    def when_flushed(self, offset: int, flushed: Any) -> None:
        self.flushes.append((offset, flushed))


def marker(*indexes: int) -> Marker:
    return Marker(7, 0, 0, True, 2, [TopicPartition("orders", index) for index in indexes])


def writer(*replicas: Replica) -> MarkerWriter:
    by_name: Any = SimpleNamespace(by_name={"orders": dict(enumerate(replicas))})
    groups: Any = None
    return MarkerWriter(by_name, groups, SystemClock(), asyncio.get_running_loop())


def test_no_flush_is_waited_for_where_none_is_wanted() -> None:
    async def go() -> None:
        replica = Replica(False)
        assert writer(replica).write(marker(0)) == {TopicPartition("orders", 0): ErrorCode.NONE}
        assert not replica.flushes

    asyncio.run(go())


@pytest.mark.parametrize(
    ("error", "code"), [(None, ErrorCode.NONE), (DiskFull("full"), DiskFull("full").code)]
)
def test_a_marker_waits_for_the_flush(error: DiskFull | None, code: ErrorCode) -> None:
    async def go() -> None:
        slow, quick = Replica(True), Replica(False)
        results = writer(slow, quick).write(marker(0, 1))
        assert isinstance(results, asyncio.Task)
        await asyncio.sleep(0)
        assert not results.done()
        ((offset, flushed),) = slow.flushes
        assert offset == 1
        flushed(error)
        assert await results == {
            TopicPartition("orders", 0): code,
            TopicPartition("orders", 1): ErrorCode.NONE,
        }

    asyncio.run(go())
