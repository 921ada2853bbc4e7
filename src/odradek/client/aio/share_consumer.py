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

import base64
import logging
import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from odradek.client.aio.consumer_calls import Use, awaited
from odradek.client.aio.shell import AsyncShell
from odradek.client.core.routes import Routes
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import ClosedError, RequestTimeoutError
from odradek.client.share.acknowledgements import AcknowledgementResult, AcknowledgeType
from odradek.client.share.acquired import ShareRecord
from odradek.client.share.consumer import CLOSE_TIMEOUT_MS, ITERATION_WAIT_MS, Mode
from odradek.client.share.leader import ShareLimits
from odradek.client.share.machine import NotAcknowledgedError, RecordKey, ShareMachine
from odradek.client.share.membership import ShareMembership
from odradek.client.share.routed import RoutedShare
from odradek.client.shell.driver import Driver
from odradek.client.shell.keeper import Calls
from odradek.client.shell.settings import CONNECTION_SETTINGS, Given
from odradek.model.topic_partition import TopicPartition

__all__ = [
    "AcknowledgeType",
    "AcknowledgementResult",
    "NotAcknowledgedError",
    "ShareConsumer",
    "ShareLimits",
    "ShareRecord",
]

log = logging.getLogger(__name__)

TIMEOUT_MS = "default.api.timeout.ms"
SHARE_SETTINGS = (*CONNECTION_SETTINGS, TIMEOUT_MS)


class ShareConsumer(AsyncShell):
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
        if mode not in ("explicit", "implicit"):
            raise ValueError(f"mode {mode!r} is not explicit or implicit")
        given = Given(settings, {}, SHARE_SETTINGS, {})
        connection = given.connection()
        member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self._timeout_ms = given.number_or(TIMEOUT_MS, 60_000, 1)
        self._mode = mode
        self._membership = ShareMembership(group, member_id, topics, rack)
        if not self._membership.topics:
            raise ValueError("a share consumer needs at least one topic")
        limits = limits or ShareLimits()
        self._machine = ShareMachine(group, member_id, limits, is_explicit=mode == "explicit")
        routes = Routes(_random_number, creates_topics=False, recovery=connection.recovery)
        self._share = RoutedShare(
            routes,
            self._membership,
            self._machine,
            timeout_ms=self._timeout_ms,
            wait_ms_max=limits.wait_ms_max,
            renews=renews,
        )
        self._on_acknowledged = on_acknowledged
        self._results: list[AcknowledgementResult] = []
        """Results that `on_acknowledged` has not got yet."""
        self._use = Use()
        super().__init__(
            lambda run_aside: Driver(connection, routes, [self._share], run_aside), "share consumer"
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

    # -- what it is -----------------------------------------------------------------------------

    @property
    def group(self) -> str:
        """The id of the share group."""
        return self._membership.group

    @property
    def member_id(self) -> str:
        """The id that this member has chosen."""
        return self._membership.member_id

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions from which this member gets records. Others may have them, too."""
        return self._machine.partitions

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long an acquisition lock lasts; None before the first response of a broker."""
        return self._machine.acquisition_lock_timeout_ms

    def lock_remaining_ms(self, record: ShareRecord) -> int:
        """Return for how long no other consumer gets the record; 0 if the lock may have ended."""
        return self._machine.lock_remaining_ms(_key(record), monotonic_ms())

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
                    self._machine.acknowledge(_key(each), AcknowledgeType.RELEASE, monotonic_ms())
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
                if not self.lock_remaining_ms(record):
                    self._acknowledge(record, AcknowledgeType.RELEASE)
                    continue
                yield record
                if self._mode == "implicit" and self._machine.is_delivered(_key(record)):
                    self._acknowledge(record, AcknowledgeType.ACCEPT)

    # -- acknowledgements -----------------------------------------------------------------------

    def accept(self, record: ShareRecord) -> None:
        """Acknowledge that the record was processed. It is not delivered again.

        Raises:
            ValueError: the record does not wait for an acknowledgement, or the mode is implicit.
        """
        self._acknowledge_explicitly(record, AcknowledgeType.ACCEPT)

    def release(self, record: ShareRecord) -> None:
        """Give the record back. It is delivered again, unless this was its last delivery.

        Raises:
            ValueError: see `accept`.
        """
        self._acknowledge_explicitly(record, AcknowledgeType.RELEASE)

    def reject(self, record: ShareRecord) -> None:
        """Give the record up, because it can never be processed. It is not delivered again.

        Raises:
            ValueError: see `accept`.
        """
        self._acknowledge_explicitly(record, AcknowledgeType.REJECT)

    def _acknowledge_explicitly(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        self._check_usable()
        if self._mode != "explicit":
            raise ValueError('records are accepted by poll; use mode="explicit" to do it yourself')
        self._acknowledge(record, kind)

    def _acknowledge(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        self._machine.acknowledge(_key(record), kind, monotonic_ms())

    async def renew(self, *records: ShareRecord, timeout_ms: int | None = None) -> None:
        """Begin the acquisition locks of delivered records again (KIP-1222), and wait for it.

        The errors are those of the blocking consumer's `renew`.
        """
        renewed = {_key(record) for record in records}
        for record in records:
            self._acknowledge_explicitly(record, AcknowledgeType.RENEW)
        for topic, partition, types, error in await self.commit(timeout_ms):
            if error is not None and any((topic, partition, o) in renewed for o in types):
                raise error

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


def _key(record: ShareRecord) -> RecordKey:
    return record.topic, record.partition, record.offset


def _random_number() -> int:
    return random.getrandbits(31)
