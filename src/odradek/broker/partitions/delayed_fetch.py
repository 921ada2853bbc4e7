"""Fetch requests that wait until there is enough data (Apache Kafka's fetch purgatory)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from odradek.broker.partitions.cold_reads import ColdReads
from odradek.broker.partitions.partition import Partition
from odradek.core.session.fetch import FetchSession
from odradek.wire.generated.fetch_response import FetchResponse


class DelayedFetch:
    """One waiting fetch. It counts the bytes that are committed in its partitions."""

    __slots__ = (
        "_evaluate",
        "_is_follower",
        "_missing_bytes",
        "_partitions",
        "_session",
        "_timer",
        "_wake",
        "_warm",
        "future",
    )

    def __init__(
        self,
        evaluate: Callable[[bool], FetchResponse | int],
        partitions: Iterable[Partition],
        missing_bytes: int,
        wait_ms: int,
        wake: Callable[[DelayedFetch], None],
        cold_reads: ColdReads,
        loop: asyncio.AbstractEventLoop,
        is_follower: bool = False,
        session: FetchSession | None = None,
    ) -> None:
        """Wait for `missing_bytes` more bytes, at most `wait_ms`.

        `partitions` need not include the partitions of `session` that rest.

        `evaluate(final)` returns the response or, if not final, the number of missing bytes. `wake`
        is called when there may be enough data. `wake` must arrange that `try_complete` is called
        soon.
        """
        self._evaluate = evaluate
        self._warm = cold_reads.warm
        self._partitions = list(partitions)
        self._is_follower = is_follower
        self._session = session
        self._missing_bytes = missing_bytes
        self._wake = wake
        self.future: asyncio.Future[FetchResponse] = loop.create_future()
        self._timer = loop.call_later(wait_ms / 1000, self.expire)
        for partition in self._partitions:
            partition.add_waiter(self, is_follower=is_follower)
        if session is not None:
            session.wait(self)

    def on_committed(self, appended_bytes: int) -> None:
        """Count bytes that were committed in a partition of the fetch; for a follower, appended."""
        self._missing_bytes -= appended_bytes
        if self._missing_bytes <= 0:
            self._wake(self)

    def on_changed(self, source: Partition, appended_bytes: int) -> None:
        """Wait for a partition that has rested, too; count the bytes that were appended to it."""
        self._partitions.append(source)
        source.add_waiter(self, is_follower=self._is_follower)
        self.on_committed(appended_bytes)

    def try_complete(self) -> None:
        """Send the response if there is enough data."""
        if self.future.done():
            return
        try:
            result = self._evaluate(False)
        except Exception as error:  # noqa: BLE001  the request fails, and must not wait for ever
            self._fail(error)
            return
        if isinstance(result, int):
            self._missing_bytes = result
        else:
            self._complete(result)

    def expire(self) -> None:
        """Send the response with the available data."""
        if self.future.done():
            return
        try:
            result = self._evaluate(True)
        except Exception as error:  # noqa: BLE001  the request fails, and must not wait for ever
            self._fail(error)
            return
        assert isinstance(result, FetchResponse)
        self._complete(result)

    def _stop_waiting(self) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            partition.remove_waiter(self)
        if self._session is not None:
            self._session.end_wait(self)

    def _fail(self, error: Exception) -> None:
        self._stop_waiting()
        self.future.set_exception(error)

    def _complete(self, response: FetchResponse) -> None:
        self._stop_waiting()
        answer = self._warm(response)
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(self._send)
        else:
            self.future.set_result(answer)

    def _send(self, warmed: asyncio.Future[FetchResponse]) -> None:
        if not self.future.done():  # the client may have disconnected
            self.future.set_result(warmed.result())
