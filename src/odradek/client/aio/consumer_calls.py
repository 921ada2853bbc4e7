"""The calls of a consumer of asyncio about positions, offsets and commits.

`direct_calls` has those that wait for no broker, and are not awaited. The arguments and errors of all are
those of `odradek.client.Consumer`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from odradek.client.aio.shell import AsyncShell
from odradek.client.consuming.direct_calls import DirectCalls
from odradek.client.consuming.state import (
    CommitCall,
    Offsets,
    found_offsets,
    partition_of,
    partitions_of,
)
from odradek.client.core.consumed_batch import Batch, Record
from odradek.client.core.offset_lookups import EARLIEST, LATEST, FoundOffset
from odradek.client.core.operation import Operation
from odradek.client.deadline import monotonic_ms
from odradek.client.errors import (
    ClientError,
    CommitFailedError,
    ConcurrentUseError,
)
from odradek.client.group_metadata import CommittedOffset
from odradek.client.producer.topic_wait import Reaching
from odradek.client.shell.keeper import Calls
from odradek.model.topic_partition import TopicPartition

log = logging.getLogger(__name__)


class Use:
    """Ensures that one task at a time uses a consumer. It may call the consumer in callbacks."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._depth = 0

    def __enter__(self) -> None:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None  # a call before the event loop runs, which does not wait
        if self._task is not None and self._task is not task:
            raise ConcurrentUseError("another task is in a call of this consumer")
        self._task = task
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._task = None


class ConsumerCalls(AsyncShell, DirectCalls):
    """What a consumer has besides subscriptions and reading."""

    def __init__(
        self, settings: Mapping[str, object] | None, keywords: Mapping[str, object]
    ) -> None:
        """Raise a ValueError if a setting is wrong."""
        DirectCalls.__init__(self, None, settings, keywords)
        self._use = Use()
        self._blocked_seconds = 0.0
        """How long the event loop was blocked the last time that the member may be lost because of that."""
        self._blocks = 0
        """How often it was."""
        self._settled_blocks = 0
        """How many of them ended with the member in the group again."""
        AsyncShell.__init__(self, self._make_driver, "consumer")

    # -- the loop -------------------------------------------------------------------------------

    def _has_work(self) -> bool:
        """See `AsyncShell`."""
        return self._works_alone

    def _take_calls(self) -> list[Calls]:
        """See `AsyncShell`."""
        return []

    def _was_blocked(self, seconds: float) -> None:
        """See `AsyncShell`."""
        member = self._machine.member
        if member is not None and not member.is_at_rest:
            self._blocked_seconds = seconds
            self._blocks += 1
            log.warning("%s", self._blocked_text())

    def _is_in_group_again(self) -> None:
        self._settled_blocks = self._blocks

    def _explain_loss(self) -> None:
        """See `DirectCalls`."""
        member = self._machine.member
        if self._blocks > self._settled_blocks and not (member is not None and member.loss):
            log.warning("partitions are lost: %s. %s", self._blocked_text(), BLOCKED_ADVICE)
        super()._explain_loss()

    def _blocked_text(self) -> str:
        return (
            f"the event loop was blocked for {self._blocked_seconds:.0f} s, in which the member of group "
            f"{self._options.member.group_id if self._options.member else ''} sent no heartbeats"
        )

    @contextmanager
    def _direct_call(self) -> Iterator[None]:
        """See `DirectCalls`."""
        with self._use:
            self._check_usable()
            yield
            self._soon()

    # -- positions ------------------------------------------------------------------------------

    async def position(self, partition: tuple[str, int], timeout: float | None = None) -> int:
        """Return the offset of the next record of a partition. If it is not known yet, wait."""
        key = partition_of(partition)
        with self._use:
            self._enter()
            self._note_part()
            deadline = self._deadline(timeout)
            state = self._state(key)
            await self._wait_until(lambda: self._has_position(key, state), deadline)
            return self._found_position(key, state, deadline)

    # -- look-ups -------------------------------------------------------------------------------

    async def offsets_for_times(
        self, times: Mapping[Any, int], timeout: float | None = None
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Return the first offset at or after a time (ms since 1970) in each partition; None if none is."""
        wanted = {partition_of(each): time_ms for each, time_ms in times.items()}
        if any(time_ms < 0 for time_ms in wanted.values()):
            raise ValueError("a time is in ms since 1970, and not negative")
        found = await self._look_up(wanted, timeout)
        return {each: at if at.offset >= 0 else None for each, at in found.items()}

    async def beginning_offsets(
        self, *partitions: Any, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        wanted = dict.fromkeys(partitions_of(partitions), EARLIEST)
        return {each: at.offset for each, at in (await self._look_up(wanted, timeout)).items()}

    async def end_offsets(
        self, *partitions: Any, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record that can be read, for each partition."""
        wanted = dict.fromkeys(partitions_of(partitions), LATEST)
        return {each: at.offset for each, at in (await self._look_up(wanted, timeout)).items()}

    async def _look_up(
        self, times: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, FoundOffset]:
        with self._use:
            self._enter()
            deadline = self._deadline(timeout)
            operation = self._machine.fetcher.lookups.look_up(
                times, monotonic_ms() + deadline.timeout_ms
            )
            await self._finish(operation)
            return found_offsets(operation)

    # -- commits --------------------------------------------------------------------------------

    async def commit(
        self, offsets: Offsets | Record | Batch | None = None, *, timeout: float | None = None
    ) -> None:
        """Commit, and wait until it is done: by default the positions, behind all that was returned.

        If this is cancelled, the commit goes on.
        """
        with self._use:
            self._enter()
            self._note_part()
            deadline = self._deadline(timeout)
            blocks = self._settled_blocks  # the member may be in the group again before the answer
            operation = self._needed_commits().commit(
                self._to_commit(offsets), monotonic_ms() + deadline.timeout_ms
            )
            await self._finish(operation)
            await self._call_commit_calls()
            error = operation.error
            if isinstance(error, CommitFailedError) and self._blocks > blocks:
                raise CommitFailedError(
                    f"{error}; {self._blocked_text()}", BLOCKED_ADVICE
                ) from error
            if error is not None:
                raise error

    def commit_async(
        self,
        offsets: Offsets | Record | Batch | None = None,
        callback: Callable[[ClientError | None], Any] | None = None,
    ) -> None:
        """Commit in the background, as `commit` does. It is tried once.

        `callback`, a function or a coroutine function, is called in a later call of the consumer.
        """
        with self._use:
            self._enter()
            self._note_part()
            operation = self._needed_commits().commit(self._to_commit(offsets))
            self._commit_calls.append(CommitCall(operation, callback))
            self._soon()

    async def committed(
        self, *partitions: Any, timeout: float | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of partitions. Those without one are missing."""
        with self._use:
            self._enter()
            deadline = self._deadline(timeout)
            operation = self._needed_commits().fetch(
                partitions_of(partitions), monotonic_ms() + deadline.timeout_ms
            )
            await self._finish(operation)
            if operation.error is not None:
                raise operation.error
            return dict(operation.offsets)

    async def _call_commit_calls(self) -> None:
        """Tell of the commits that have ended, in order."""
        while self._commit_calls and self._commit_calls[0].operation.done:
            operation, callback = self._commit_calls.pop(0)
            if callback is not None:
                await awaited(callback(operation.error))
            elif operation.error is not None:
                self._warn(operation.error)

    async def _finish(self, operation: Operation) -> None:
        """Wait for the end of an operation with a deadline."""
        reaching = Reaching(self._routes)

        def is_done() -> bool:
            if not operation.done:
                reaching.check()
            return operation.done

        await self._wait_until(is_done, None)


BLOCKED_ADVICE = (
    "Do not block the event loop: await, or run what takes long with asyncio.to_thread. Or raise "
    "session.timeout.ms."
)


async def awaited(result: Any) -> None:
    """Wait for what a user's function has returned, if it is a coroutine function."""
    if inspect.isawaitable(result):
        await result
