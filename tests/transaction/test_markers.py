"""Markers are reported as written when they are committed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.coordinator.markers import Marker, MarkerWriter
from odradek.broker.partition import ACKS_ALL
from odradek.env.clock import SystemClock
from odradek.log.errors import DiskFull
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition


class Replica:
    """A partition whose records the test commits."""

    def __init__(self, commits_at_once: bool) -> None:
        self.log = SimpleNamespace(log_end_offset=0)
        self.commits_at_once = commits_at_once
        self.waiting: list[tuple[int, Any]] = []

    def append_marker(self, batch: Any, marker: Any, transaction_version: int) -> None:
        self.log.log_end_offset += 1

    def is_acknowledged(self, offset: int, acks: int) -> bool:
        assert acks == ACKS_ALL
        return self.commits_at_once

    def when_committed(self, offset: int, committed: Any) -> None:
        self.waiting.append((offset, committed))


def marker(*indexes: int) -> Marker:
    return Marker(7, 0, 0, True, 2, [TopicPartition("orders", index) for index in indexes])


def writer(*replicas: Replica) -> MarkerWriter:
    by_name: Any = SimpleNamespace(by_name={"orders": dict(enumerate(replicas))})
    groups: Any = None
    return MarkerWriter(by_name, groups, SystemClock(), asyncio.get_running_loop())


def test_a_marker_that_is_committed_at_once_is_answered_at_once() -> None:
    async def go() -> None:
        replica = Replica(True)
        assert writer(replica).write(marker(0)) == {TopicPartition("orders", 0): ErrorCode.NONE}
        assert not replica.waiting

    asyncio.run(go())


@pytest.mark.parametrize(
    ("error", "code"), [(None, ErrorCode.NONE), (DiskFull("full"), DiskFull("full").code)]
)
def test_a_marker_is_answered_once_it_is_committed(error: DiskFull | None, code: ErrorCode) -> None:
    async def go() -> None:
        slow, quick = Replica(False), Replica(True)
        results = writer(slow, quick).write(marker(0, 1))
        assert isinstance(results, asyncio.Task)
        await asyncio.sleep(0)
        assert not results.done()
        ((offset, committed),) = slow.waiting
        assert offset == 1
        committed(error)
        assert await results == {
            TopicPartition("orders", 0): code,
            TopicPartition("orders", 1): ErrorCode.NONE,
        }

    asyncio.run(go())
