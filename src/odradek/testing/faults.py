"""Faults that a test injects into the next requests of an API: errors, delays and disconnects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.entry import Entry
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.produce_request import ProduceRequest

FOREVER = 2**62


@dataclass(slots=True)
class Fault:
    """A fault for the next `times` requests. If `api_key` is None, requests of any API count."""

    api_key: int | None
    times: int
    error: ErrorCode | None = None
    delay_s: float = 0.0
    disconnects: bool = False

    def use(self) -> bool:
        """Count a request that gets the fault. Return whether no further request gets it."""
        self.times -= 1
        return self.times <= 0


class Faults:
    """The injected faults. The dispatcher calls this object before it calls a handler.

    The dispatcher runs on the event loop's thread. The test's thread adds and removes faults, even
    while the event loop is paused.
    """

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Add a fault for the next requests, after the faults added before."""
        with self._lock:
            self._faults.append(fault)

    def forget(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults.clear()

    def __call__(self, entry: Entry, context: RequestContext, request: Any) -> Any:
        """Return a result for the request; None if the dispatcher should call the handler.

        Raises:
            ApiError: the fault is an error.
        """
        fault = self._take(entry.key)
        return None if fault is None else self._apply(fault, entry, context, request)

    def _take(self, api_key: int) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.api_key in {None, api_key}:
                    if fault.use():
                        self._faults.remove(fault)
                    return fault
        return None

    @staticmethod
    def _apply(fault: Fault, entry: Entry, context: RequestContext, request: Any) -> Any:
        if fault.disconnects:
            context.peer.close()
            return asyncio.get_running_loop().create_future()
        if fault.error is not None:
            raise ApiError(fault.error, f"{fault.error.message} (injected)")
        return _late(fault.delay_s, entry.handle, context, _kept(request))


def _kept(request: Any) -> Any:
    """Return the request with a copy of its records instead of views of the receive buffer."""
    if isinstance(request, ProduceRequest):
        for topic in request.topic_data:
            for partition in topic.partition_data:
                if partition.records is not None:
                    partition.records = bytearray(partition.records)  # type: ignore[arg-type]
    return request


async def _late(
    delay_s: float,
    handle: Callable[[RequestContext, Any], Any],
    context: RequestContext,
    request: Any,
) -> Any:
    await asyncio.sleep(delay_s)
    answer = handle(context, request)
    return await answer if asyncio.iscoroutine(answer) or asyncio.isfuture(answer) else answer
