"""Fetches that wait until there is enough to send (Apache Kafka's fetch purgatory)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from odradek.wire.generated.fetch_response import FetchResponse

if TYPE_CHECKING:
    from odradek.broker.cold_reads import ColdReads
    from odradek.broker.partition import Partition


class DelayedFetch:
    """One waiting fetch. `missing_bytes` counts down as its partitions grow."""

    __slots__ = ("_evaluate", "_partitions", "_timer", "_warm", "future", "missing_bytes")

    def __init__(
        self,
        evaluate: Callable[[bool], FetchResponse | int],
        partitions: Iterable[Partition],
        missing_bytes: int,
        wait_ms: int,
        cold_reads: ColdReads,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`evaluate(final)` returns the response or, if not final, the number of missing bytes."""
        self._evaluate = evaluate
        self._warm = cold_reads.warm
        self._partitions = list(partitions)
        self.missing_bytes = missing_bytes
        self.future: asyncio.Future[FetchResponse] = loop.create_future()
        self._timer = loop.call_later(wait_ms / 1000, self.expire)
        for partition in self._partitions:
            if partition.waiters is None:
                partition.waiters = {}
            partition.waiters[self] = None

    def try_complete(self) -> None:
        """Send the response if there is enough data."""
        if not self.future.done():
            result = self._evaluate(False)
            if isinstance(result, int):
                self.missing_bytes = result
            else:
                self._complete(result)

    def expire(self) -> None:
        """Send the response with the available data."""
        if not self.future.done():
            result = self._evaluate(True)
            assert isinstance(result, FetchResponse)
            self._complete(result)

    def _complete(self, response: FetchResponse) -> None:
        self._timer.cancel()
        for partition in self._partitions:
            if partition.waiters is not None:
                partition.waiters.pop(self, None)
        answer = self._warm(response)
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(self._send)
        else:
            self.future.set_result(answer)

    def _send(self, warmed: asyncio.Future[FetchResponse]) -> None:
        if not self.future.done():  # the client may have disconnected
            self.future.set_result(warmed.result())
