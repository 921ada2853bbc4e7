"""Reads records: the asyncio shell of the consumer's machine.

    async with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        async for batch in consumer.batches():
            await handle(batch)

The event loop drives the machine, also while the program works on records: a handler may await for as long as
`max.poll.interval.ms` allows. What the group assigns and revokes is seen only in `poll`, `unsubscribe`
and `close`. One task at a time may use a consumer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from odradek.client.aio.consumer_calls import ConsumerCalls, awaited
from odradek.client.consuming.deserializing import Deserializers
from odradek.client.consuming.state import CLOSE_SECONDS
from odradek.client.core.consumed_batch import Batch, Record
from odradek.client.core.member_events import Assigned, MemberEvent
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import ClosedError, SerializationError
from odradek.client.producer.topic_wait import Reaching
from odradek.client.serializers.registry import NotRegisteredError
from odradek.client.shell.telemetry import last_push

__all__ = ["Batch", "Consumer", "Record"]

log = logging.getLogger(__name__)

SLICE_SECONDS = 1.0
"""How long `batches` waits at a time, and how often iteration over records polls."""
LONG_SECONDS = 300
"""`poll` warns of a longer timeout, which is perhaps meant in ms."""


class Consumer(ConsumerCalls):
    """A consumer. At the end of an `async with` statement it is closed.

    It connects when it is first used. After `subscribe`, it joins its group in `poll`. Each method may be
    cancelled: a cancelled `poll` has taken nothing.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, **keywords: object) -> None:
        """Make a consumer. The settings are those of `odradek.client.Consumer`.

        Raises:
            ValueError: a setting is unknown or malformed, or settings contradict each other.
        """
        super().__init__(settings, keywords)
        self._reaching: Reaching | None = None

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- what is read ---------------------------------------------------------------------------

    async def unsubscribe(self) -> None:
        """Leave the group, or drop what was assigned. Offsets are committed as in `close`.

        Raises:
            ClientError: the coordinator does not answer. The consumer has left nevertheless.
        """
        with self._use:
            self._enter()
            await self._leave(Deadline(self._options.api_timeout_ms))

    # -- reading --------------------------------------------------------------------------------

    async def poll(self, timeout: float = 0.0) -> Batch | None:
        """Return the next batch of records; None if there is none within `timeout` seconds.

        The records of the batch before count as read. Callbacks are called, and offsets are committed
        if `enable.auto.commit` is true and it is time. The errors are those of
        `odradek.client.Consumer.poll`.
        """
        if timeout > LONG_SECONDS:
            log.warning("poll waits for %s seconds; the timeout is not in ms", timeout)
        with self._use:
            self._enter()
            return await self._next_batch(Deadline(round(timeout * 1000)))

    async def _next_batch(self, deadline: Deadline) -> Batch | None:
        machine = self._machine
        is_in_time = True
        while True:
            await self._poll_member()
            error = machine.take_member_error(monotonic_ms())
            if error is not None:
                raise error
            batch = machine.take()
            if batch is not None or not is_in_time:
                if machine.fetcher.is_due:
                    self._driver.send()
                self._arm()
                if batch is not None:
                    await self._prepare(batch)
                return batch
            is_in_time = await self._wait_until(self._has_news, deadline)

    async def _prepare(self, batch: Batch) -> None:
        """Let the executor ask a schema registry for what a batch needs."""
        decoder = self._options.fetch.decoder
        if not isinstance(decoder, Deserializers) or not decoder.may_wait:
            return
        loop = self._enter()
        try:
            for ask in decoder.unready(batch):
                with suppress(SerializationError, NotRegisteredError):
                    await loop.run_in_executor(None, ask)  # they are raised again by `records`
        except BaseException:  # the user does not get the batch
            self._machine.fetcher.give_back(batch)
            raise

    async def _poll_member(self) -> None:
        """Note that the user polls, and work on what the group has assigned or revoked."""
        self._machine.polled(monotonic_ms())
        await self._work_on_events()
        await self._call_commit_calls()

    def _has_news(self) -> bool:
        machine = self._machine
        if machine.fetcher.has_news or machine.take_event(monotonic_ms()) is not None:
            return True
        member = machine.member
        if member is not None and member.is_at_rest and member.error is not None:
            return True
        if not self._routes.has_answered:
            if self._reaching is None:
                self._reaching = Reaching(self._routes)
            self._reaching.check()
        self._routes.check_refusal()
        return False

    async def _work_on_events(self) -> None:
        """Call the callbacks that are due."""
        while True:
            event = self._machine.take_event(monotonic_ms())
            error = self._machine.take_commit_error()
            if error is not None:
                self._warn(error)
            if event is None:
                return
            try:
                await self._tell(event)
            finally:
                self._machine.done()

    async def _tell(self, event: MemberEvent) -> None:
        callback, partitions = self._callback_of(event)
        if isinstance(event, Assigned):
            self._is_in_group_again()
        if callback is not None:
            await awaited(callback(partitions))

    async def batches(self, timeout: float | None = None) -> AsyncIterator[Batch]:
        """Yield batches for ever; with `timeout`, until there was none for so many seconds.

        The records of a batch count as read when the next one is asked for.

        Raises:
            ClientError: see `poll`.
        """
        waited = 0.0
        while timeout is None or waited < timeout:
            slice_seconds = SLICE_SECONDS if timeout is None else min(SLICE_SECONDS, timeout)
            batch = await self.poll(slice_seconds)
            waited += slice_seconds
            if batch is not None:
                waited = 0.0
                yield batch

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Yield records for ever. A record counts as read when the next one is asked for.

        Raises:
            ClientError: see `poll`.
        """
        poll_at = time.monotonic() + SLICE_SECONDS
        while True:
            rest = self._rest
            for record in rest:
                self._returns(record)
                yield record
                now = time.monotonic()
                if now >= poll_at:
                    poll_at = now + SLICE_SECONDS
                    await self._stay_member(record)
                if self._rest is not rest:  # another position, or another assignment
                    break
            else:
                self._next_rest(iter(()))
                batch = await self.poll(SLICE_SECONDS)
                if batch is not None:
                    self._next_rest(iter(batch))
                poll_at = time.monotonic() + SLICE_SECONDS

    async def _stay_member(self, record: Record) -> None:
        """Poll the member in the middle of a batch, the rest of which may be dropped then."""
        with self._use:
            self._enter()
            self._note_part()
            await self._poll_member()
            if not self._machine.is_current(record.batch):
                self._next_rest(iter(()))

    # -- the end --------------------------------------------------------------------------------

    async def _leave(self, deadline: Deadline) -> None:
        """Commit if that is automatic, leave the group, and drop the assignment."""
        machine = self._machine
        self._note_part()
        try:
            await self._commit_finally(deadline)
        finally:
            machine.unsubscribe()
            try:
                while await self._is_leaving(deadline):
                    await self._work_on_events()
            finally:
                self._next_rest(iter(()))
                machine.forget_member()

    async def _commit_finally(self, deadline: Deadline) -> None:
        machine = self._machine
        if machine.settings.commits_automatically and machine.commits is not None:
            if machine.member is not None and not machine.member.may_commit:
                return
            commit = machine.commits.commit(
                machine.consumed(), monotonic_ms() + max(deadline.remaining_ms, 1)
            )
            await self._wait_until(lambda: commit.done, deadline)
            if commit.error is not None:
                self._warn(commit.error)

    async def _is_leaving(self, deadline: Deadline) -> bool:
        """Wait until the member is outside. Return whether there is an event before."""
        machine = self._machine
        await self._wait_until(
            lambda: machine.take_event(monotonic_ms()) is not None or machine.is_out, deadline
        )
        return machine.take_event(monotonic_ms()) is not None

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Commit if `enable.auto.commit` is true, give up all partitions, and leave the group.

        A static member does not leave. This waits for the coordinator for at most `timeout` seconds. If
        it is cancelled, the connections are closed at once. A second call does nothing.
        """
        if self._problem is not None:
            return
        with self._use:
            self._enter()
            deadline = Deadline(round(timeout * 1000))
            try:
                await self._leave(deadline)
                commits = self._machine.commits
                if commits is not None:
                    await self._wait_until(lambda: commits.is_idle, deadline)
                self._machine.end_sessions()
                self._telemetry.terminate()
                await self._wait_until(self._telemetry.has_ended, last_push(deadline))
                await self._call_commit_calls()
            finally:
                self._end(ClosedError("the consumer is closed", "Make a new one."))
