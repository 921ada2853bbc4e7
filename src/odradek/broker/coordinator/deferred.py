"""Responses that wait until the records that they depend on are committed.

`CommitWait` holds the waiting responses in the order of their offsets. The partition notifies it of
commits (`when_committed`). After the write timeout the client gets a retriable error, although the
records may still be committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from odradek.broker.coordinator.context import ShardContext
from odradek.broker.coordinator.errors import coordinator_error
from odradek.broker.coordinator.log import CoordinatorPartition
from odradek.core.coordinator.result import OnCommit
from odradek.model.errors import ApiError, ErrorCode


class DeferredEvent:
    """One response that is not sent yet. `future` is None if no client waits for the response."""

    __slots__ = ("future", "on_commit", "response")

    def __init__(
        self, response: Any, on_commit: OnCommit | None, future: asyncio.Future[Any] | None
    ) -> None:
        self.response = response
        self.on_commit = on_commit
        self.future = future

    def complete(self) -> None:
        """Send the response, because the records it depends on are committed."""
        if self.on_commit is not None:
            self.on_commit(None)
        if self.future is not None and not self.future.done():
            self.future.set_result(self.response)

    def fail(self, error: ApiError) -> None:
        """Send an error, because the records were not written or may never become committed."""
        if self.on_commit is not None:
            self.on_commit(error)
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)


class _Write(NamedTuple):
    """Events that wait until all records before `offset` are committed."""

    offset: int
    deadline_ms: int
    events: Sequence[DeferredEvent]


class CommitWait:
    """The events of one partition that wait for a commit, in the order of their offsets."""

    __slots__ = ("_context", "_on_completed", "_partition", "_queue", "_timeout")

    def __init__(
        self,
        partition: CoordinatorPartition,
        context: ShardContext,
        on_completed: Callable[[], None],
    ) -> None:
        """`on_completed` is called after events were completed or failed."""
        self._partition = partition
        self._context = context
        self._on_completed = on_completed
        self._queue: deque[_Write] = deque()
        """Neither offsets nor deadlines decrease from one entry to the next."""
        self._timeout: asyncio.TimerHandle | None = None

    def is_committed(self, offset: int) -> bool:
        """Whether all records before `offset` are committed."""
        return offset <= self._partition.high_watermark

    def add(self, offset: int, events: Sequence[DeferredEvent]) -> None:
        """Complete the events when all records before `offset` are committed, possibly now."""
        if offset <= self._partition.high_watermark:
            for each in events:
                each.complete()
            return
        deadline_ms = self._context.clock.monotonic_ms() + self._context.write_timeout_ms
        self._queue.append(_Write(offset, deadline_ms, events))
        if self._timeout is None:
            self._arm()
        self._partition.when_committed(offset, partial(self._committed, offset))

    def _committed(self, offset: int, error: ApiError | None) -> None:
        completed = False
        translated = None if error is None else coordinator_error(error)
        while self._queue and self._queue[0].offset <= offset:
            completed = True
            for each in self._queue.popleft().events:
                if translated is None:
                    each.complete()
                else:
                    each.fail(translated)
        if completed:
            self._on_completed()

    def _arm(self) -> None:
        self._timeout = None
        if self._queue:
            now_ms = self._context.clock.monotonic_ms()
            delay_ms = max(0, self._queue[0].deadline_ms - now_ms)
            self._timeout = self._context.loop.call_later(delay_ms / 1000, self._expire)

    def _expire(self) -> None:
        """Fail events that have waited too long; their records may still be committed."""
        error = coordinator_error(ApiError(ErrorCode.REQUEST_TIMED_OUT))
        now_ms = self._context.clock.monotonic_ms()
        while self._queue and self._queue[0].deadline_ms <= now_ms:
            for each in self._queue.popleft().events:
                each.fail(error)
        self._arm()
        self._on_completed()

    def close(self, error: ApiError) -> None:
        """Fail all waiting events. Later commits have no effect on this object."""
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
        while self._queue:
            for each in self._queue.popleft().events:
                each.fail(error)
