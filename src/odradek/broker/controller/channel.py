"""The connection from a broker to the active controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from odradek.broker.context import RequestContext
from odradek.broker.controller.quorum_controller import QuorumController


class ControllerChannel(Protocol):
    """Sends requests to the active controller, in this or another process."""

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """Return the response to a request after its changes are committed.

        `context` is that of the client whose request is forwarded; None for a request of this node
        itself, which uses the newest version of the API.

        Raises:
            ApiError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or an error of the whole request.
        """
        ...


CREATING = frozenset((19, 37))
"""The API keys of CreateTopics and CreatePartitions."""


class LocalControllerChannel:
    """Used if the controller is in this process.

    `opened(timeout_ms)` waits until the new partitions are served here, so that a client can
    produce as soon as it has the response.
    """

    def __init__(
        self, controller: QuorumController, opened: Callable[[int], Awaitable[bool]] | None = None
    ) -> None:
        self._controller = controller
        self._opened = opened

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """See `ControllerChannel`."""
        answer = await self._controller.submit(context, request)
        if self._opened is not None and request.API_KEY in CREATING:
            await self._opened(request.timeout_ms)
        return answer
