"""Faults that a test orders: errors, delays and disconnects, for the next requests of an API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.broker.context import RequestContext
from odradek.handlers.dispatch import Entry
from odradek.handlers.error_answers import error_answer
from odradek.model.errors import ErrorCode
from odradek.wire.generated.produce_request import ProduceRequest

FOREVER = 2**62


@dataclass(slots=True)
class Fault:
    """What happens to a request; `api_key` None means any API."""

    api_key: int | None
    times: int
    error: ErrorCode | None = None
    delay_s: float = 0.0
    disconnects: bool = False


class Faults:
    """Asked by the dispatcher before each handler; lives on the loop's thread."""

    def __init__(self) -> None:
        self.ordered: list[Fault] = []

    def __call__(self, entry: Entry, context: RequestContext, request: Any) -> Any:
        """What stands for the handler's answer; None lets the handler answer."""
        for fault in self.ordered:
            if fault.api_key in {None, entry.key}:
                fault.times -= 1
                if fault.times <= 0:
                    self.ordered.remove(fault)
                return self._happen(fault, entry, context, request)
        return None

    @staticmethod
    def _happen(fault: Fault, entry: Entry, context: RequestContext, request: Any) -> Any:
        if fault.disconnects:
            context.peer.close()
            return asyncio.get_running_loop().create_future()
        if fault.error is not None:
            code = fault.error
            return error_answer(request, context.api_version, code, f"{code.message} (injected)")
        return _late(fault.delay_s, entry.handle, context, _kept(request))


def _kept(request: Any) -> Any:
    """The request without references to the receive buffer."""
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
