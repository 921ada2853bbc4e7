"""Acknowledgements are stored at once, or together after the write that is in progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

from tests.broker.support import partition_of

from odradek.broker.share.local import LocalSharePartition, Tasks
from odradek.core.share.acknowledgement import AcknowledgementBatch
from odradek.core.share.acquisition import FetchedBatch, Request
from odradek.core.share.states import ACCEPT, RecordState, ShareSettings, StateBatch
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.env.clock import SystemClock
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.batch import NO_PRODUCER_ID
from odradek.wire.generated.write_share_group_state_request import PartitionData
from odradek.wire.generated.write_share_group_state_response import PartitionResult

MEMBER = "m"
BATCHES = 5
SETTINGS = ShareSettings(30_000, 5, 2000, True)


class Persister:
    """Writes that end at once with `code`, or when the test says so."""

    def __init__(self, *, at_once: bool = False, code: ErrorCode = ErrorCode.NONE) -> None:
        self.at_once = at_once
        self.code = code
        self.written: list[list[tuple[int, int]]] = []
        self.pending: list[asyncio.Future[PartitionResult]] = []

    def write(
        self, key: SharePartitionKey, data: PartitionData, /
    ) -> PartitionResult | asyncio.Future[PartitionResult]:
        assert key.partition == data.partition
        self.written.append([(each.first_offset, each.last_offset) for each in data.state_batches])
        if self.at_once:
            return PartitionResult(error_code=self.code)
        future: asyncio.Future[PartitionResult] = asyncio.get_running_loop().create_future()
        self.pending.append(future)
        return future

    def end(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """End the oldest write."""
        self.pending.pop(0).set_result(PartitionResult(error_code=code))


def run(
    path: Path,
    persister: Persister,
    body: Callable[[LocalSharePartition], Coroutine[None, None, None]],
) -> None:
    """Run `body` with a share partition that has acquired `BATCHES` batches of one record."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        tasks = Tasks(loop)
        local = LocalSharePartition(
            "group",
            partition_of(path),
            lambda: SETTINGS,
            persister,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            SystemClock(),
            loop,
            tasks,
            lambda waiters: None,
        )
        local.machine.begin_loading()
        local.machine.load(0, 0, [])
        batches = [
            FetchedBatch(offset, offset, 70, NO_PRODUCER_ID, False, False)
            for offset in range(BATCHES)
        ]
        local.acquire(Request(MEMBER, False, 1, 100), 0, batches, [])
        await body(local)
        local.fence()
        await tasks.close()

    asyncio.run(main())


def accept(local: LocalSharePartition, offset: int) -> asyncio.Future[ApiError | None]:
    """Acknowledge a record whose write has not ended."""
    stored = local.acknowledge(MEMBER, [AcknowledgementBatch(offset, offset, [ACCEPT])])
    assert isinstance(stored, asyncio.Future)
    return stored


def test_what_comes_during_a_write_is_written_together_after_it(tmp_path: Path) -> None:
    persister = Persister()

    async def body(local: LocalSharePartition) -> None:
        stored = [accept(local, 0), accept(local, 1)]
        await asyncio.sleep(0)
        stored += [accept(local, 3)]
        assert persister.written == [[(0, 0)]]
        persister.end()
        assert await stored[0] is None
        assert [each.done() for each in stored] == [True, False, False]
        assert persister.written == [[(0, 0)], [(1, 1), (3, 3)]]
        persister.end()
        assert await asyncio.gather(*stored) == [None] * 3
        assert local.machine.start_offset == 2
        await local.settle()
        accept(local, 2)
        assert persister.written[2:] == [[(2, 2)]]
        persister.end()
        await local.settle()

    run(tmp_path, persister, body)


def test_what_cannot_be_stored_stays_acquired(tmp_path: Path) -> None:
    persister = Persister()

    async def body(local: LocalSharePartition) -> None:
        first, second = accept(local, 0), accept(local, 1)
        persister.end(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        failure = await first
        assert failure is not None
        assert failure.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        persister.end()
        assert await second is None
        assert local.machine.states()[:2] == [
            StateBatch(0, 0, RecordState.ACQUIRED, 1),
            StateBatch(1, 1, RecordState.ACKNOWLEDGED, 1),
        ]

    run(tmp_path, persister, body)


def test_a_change_that_is_stored_at_once_is_complete_at_once(tmp_path: Path) -> None:
    persister = Persister(at_once=True)

    async def body(local: LocalSharePartition) -> None:
        batch = AcknowledgementBatch(0, 0, [ACCEPT])
        assert local.acknowledge(MEMBER, [batch]) is None
        assert local.machine.start_offset == 1
        persister.code = ErrorCode.FENCED_STATE_EPOCH
        failure = local.acknowledge(MEMBER, [AcknowledgementBatch(1, 1, [ACCEPT])])
        assert isinstance(failure, ApiError)
        assert failure.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert local.machine.states()[0].state is RecordState.ACQUIRED
        assert not local.is_busy

    run(tmp_path, persister, body)
