"""A member of a share group: the asyncio shell of the share consumer's machines.

    async with ShareConsumer({"bootstrap.servers": "localhost:9092"}, "workers", ["jobs"]) as jobs:
        async for job in jobs:
            await handle(job.value)
            jobs.accept(job)

The event loop sends heartbeats and acknowledgements also while a handler awaits, and with `renews` it keeps the
records locked. There is no thread. One task at a time may use a consumer, except that
any task may acknowledge.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Self

from odradek.client.aio.consumer_calls import Use, awaited
from odradek.client.aio.shell import AsyncShell
from odradek.client.consuming.state import random_number
from odradek.client.core.routes import Routes
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import ClosedError, RequestTimeoutError
from odradek.client.share.acknowledgements import AcknowledgementResult, AcknowledgeType
from odradek.client.share.acquired import ShareRecord
from odradek.client.share.direct_calls import (
    CLOSE_TIMEOUT_MS,
    ITERATION_WAIT_MS,
    DirectShareCalls,
    Mode,
    check_renewed,
    key_of,
)
from odradek.client.share.leader import ShareLimits
from odradek.client.share.machine import NotAcknowledgedError
from odradek.client.share.routed import RoutedShare
from odradek.client.shell.driver import Driver
from odradek.client.shell.keeper import Calls
from odradek.client.shell.settings import CONNECTION_SETTINGS, Given

__all__ = [
    "AcknowledgeType",
    "AcknowledgementResult",
    "NotAcknowledgedError",
    "ShareConsumer",
    "ShareLimits",
    "ShareRecord",
]

TIMEOUT_MS = "default.api.timeout.ms"
SHARE_SETTINGS = (*CONNECTION_SETTINGS, TIMEOUT_MS)


class ShareConsumer(AsyncShell, DirectShareCalls):
    """A member of a share group, which it joins in the first `poll`.

    The modes, acknowledgements and their results are those of the blocking `ShareConsumer`. At the end of an
    `async with` statement it is closed. Each call may be cancelled: a cancelled `poll` has taken nothing.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        group: str,
        topics: Iterable[str],
        *,
        mode: Mode = "explicit",
        limits: ShareLimits | None = None,
        rack: str | None = None,
        renews: bool = False,
        on_acknowledged: Callable[[Sequence[AcknowledgementResult]], Any] | None = None,
    ) -> None:
        """`settings` are those of connections, and `default.api.timeout.ms` (60 s).

        `limits` says how many records a `poll` acquires. With `renews`, records stay locked until they are
        acknowledged, however long that takes (Apache Kafka 4.2 or newer). `on_acknowledged`, a function or
        a coroutine function, gets the results of acknowledgements in later calls of the consumer.

        Raises:
            ValueError: a setting or `mode` is unknown, or there is no topic.
        """
        given = Given(settings, {}, SHARE_SETTINGS, {})
        connection = given.connection()
        self._timeout_ms = given.number_or(TIMEOUT_MS, 60_000, 1)
        DirectShareCalls.__init__(self, group, topics, mode, limits, rack)
        routes = Routes(random_number, creates_topics=False, recovery=connection.recovery)
        self._share = RoutedShare(
            routes,
            self._membership,
            self._machine,
            timeout_ms=self._timeout_ms,
            wait_ms_max=self._limits.wait_ms_max,
            renews=renews,
        )
        self._on_acknowledged = on_acknowledged
        self._results: list[AcknowledgementResult] = []
        """Results that `on_acknowledged` has not got yet."""
        self._use = Use()
        AsyncShell.__init__(
            self,
            lambda run_aside: Driver(connection, routes, [self._share], run_aside),
            "share consumer",
        )

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

    # -- the loop -------------------------------------------------------------------------------

    def _has_work(self) -> bool:
        """See `AsyncShell`."""
        return self._share.is_joined

    def _take_calls(self) -> list[Calls]:
        """See `AsyncShell`."""
        return []

    def _has_ended(self) -> bool:
        return self._problem is not None

    def _direct_call(self) -> AbstractContextManager[object]:
        """See `DirectShareCalls`. The loop has one thread."""
        return nullcontext()

    # -- records --------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int) -> list[ShareRecord]:
        """Return acquired records. If there are none, wait up to `timeout_ms`.

        The errors are those of the blocking consumer's `poll`.
        """
        with self._use:
            self._enter()
            self._machine.begin_poll(monotonic_ms())
            self._share.begin()
            records = self._machine.take(monotonic_ms())
            if records:
                self._machine.hurry()
                self._soon()
            else:
                self._machine.fetch_more()
                await self._wait_until(self._has_news, Deadline(timeout_ms))
                records = self._machine.take(monotonic_ms())
            try:
                await self._report()
                if not records:
                    self._raise_error()
            except BaseException:
                for each in records:  # the user does not get them
                    self._machine.acknowledge(key_of(each), AcknowledgeType.RELEASE, monotonic_ms())
                raise
            return records

    def _has_news(self) -> bool:
        return self._machine.has_records or self._share.has_error

    def _raise_error(self) -> None:
        error = self._share.take_error()
        if error is not None:
            raise error

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        """Yield records for ever. While a loop runs, do not call `poll`.

        Records whose lock may have ended before their turn are not returned. They are delivered again.

        Raises:
            ClientError: see `poll`.
        """
        while not self._has_ended():
            for record in await self.poll(ITERATION_WAIT_MS):
                if self._has_ended():
                    return
                if self._may_deliver(record):
                    yield record
                    self._was_processed(record)

    # -- acknowledgements -----------------------------------------------------------------------

    async def renew(self, *records: ShareRecord, timeout_ms: int | None = None) -> None:
        """Begin the acquisition locks of delivered records again (KIP-1222), and wait for it.

        The errors are those of the blocking consumer's `renew`.
        """
        for record in records:
            self._acknowledge_explicitly(record, AcknowledgeType.RENEW)
        check_renewed(records, await self.commit(timeout_ms))

    async def commit(self, timeout_ms: int | None = None) -> list[AcknowledgementResult]:
        """Send the acknowledgements, and wait for their results, which are returned.

        In the mode `implicit`, this accepts the records of the last `poll`.

        Raises:
            RequestTimeoutError: not all results are known after `timeout_ms`.
            ClientError: a permanent error.
        """
        with self._use:
            self._enter()
            deadline = Deadline(self._timeout_ms if timeout_ms is None else timeout_ms)
            self._machine.acknowledge_all(monotonic_ms())
            found: list[AcknowledgementResult] = []

            def is_done() -> bool:
                found.extend(self._take_results())
                if not self._machine.has_acknowledgements or self._share.has_error:
                    return True
                self._machine.hurry()
                return False

            self._machine.hurry()
            is_in_time = await self._wait_until(is_done, deadline)
            await self._report()
            self._raise_error()
            if not is_in_time:
                raise RequestTimeoutError(
                    f"acknowledgements have no result after {deadline.timeout_ms} ms"
                )
            return found

    def _take_results(self) -> list[AcknowledgementResult]:
        results = self._machine.take_results()
        if self._on_acknowledged is not None:
            self._results += results
        return results

    async def _report(self) -> None:
        """Pass the results to `on_acknowledged`, if there are any."""
        self._take_results()
        results, self._results = self._results, []
        if results and self._on_acknowledged is not None:
            await awaited(self._on_acknowledged(results))

    # -- the end --------------------------------------------------------------------------------

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> list[AcknowledgementResult]:
        """Send the acknowledgements, release all other records, and leave the group.

        Return the results of the acknowledgements. If a broker cannot be reached, it releases the
        records itself when the connection ends, and the coordinator removes the member after the
        session timeout. If this is cancelled, the connections are closed at once.
        """
        if self._problem is not None:
            return []
        with self._use:
            self._enter()
            try:
                if self._share.is_joined:
                    self._share.leave()
                    await self._wait_until(lambda: self._share.has_left, Deadline(timeout_ms))
            finally:
                self._end(ClosedError("the share consumer is closed", "Make a new one."))
            found = self._take_results()
            await self._report()
            return found
