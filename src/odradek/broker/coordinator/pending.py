"""Answers that wait until what they depend on is committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from odradek.core.coordinator.result import OnCommit
from odradek.model.errors import ApiError


class Pending:
    """One answer. `future` is None where nobody waits for it."""

    __slots__ = ("future", "on_commit", "response")

    def __init__(
        self, response: Any, on_commit: OnCommit | None, future: asyncio.Future[Any] | None
    ) -> None:
        self.response = response
        self.on_commit = on_commit
        self.future = future

    def succeed(self) -> None:
        """What it depends on is committed."""
        if self.on_commit is not None:
            self.on_commit(None)
        if self.future is not None and not self.future.done():
            self.future.set_result(self.response)

    def fail(self, error: ApiError) -> None:
        """What it depends on was not written, or nobody knows."""
        if self.on_commit is not None:
            self.on_commit(error)
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)


class Written(NamedTuple):
    """Answers that wait for the high watermark to reach `offset`."""

    offset: int
    deadline_ms: int
    answers: Iterable[Pending]


class PendingAnswers:
    """Waiting answers in the order of their offsets, which is that of their deadlines too."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[Written] = deque()

    def __bool__(self) -> bool:
        return bool(self._queue)

    def add(self, offset: int, deadline_ms: int, answers: Iterable[Pending]) -> None:
        """Let answers wait; offsets never go back."""
        self._queue.append(Written(offset, deadline_ms, answers))

    def take_committed(self, high_watermark: int) -> list[Pending]:
        """Those that need not wait any more."""
        taken: list[Pending] = []
        queue = self._queue
        while queue and queue[0].offset <= high_watermark:
            taken.extend(queue.popleft().answers)
        return taken

    def take_overdue(self, now_ms: int) -> list[Pending]:
        """Those that have waited for too long."""
        taken: list[Pending] = []
        queue = self._queue
        while queue and queue[0].deadline_ms <= now_ms:
            taken.extend(queue.popleft().answers)
        return taken

    def take_all(self) -> list[Pending]:
        """Everyone."""
        taken = [each for written in self._queue for each in written.answers]
        self._queue.clear()
        return taken

    @property
    def next_deadline_ms(self) -> int | None:
        """When the first has waited for too long."""
        return self._queue[0].deadline_ms if self._queue else None
