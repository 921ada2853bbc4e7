"""The connection from a broker to the active controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.model import api_keys


class ControllerChannel(Protocol):
    """Sends requests to the active controller, which is in this process or in another one."""

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """Return the response to a request after its changes are committed.

        `context` is the context of the client's request that is forwarded. It is None for a request
        of this node, which uses the newest version of the API.

        Raises:
            ApiError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or an error of the whole request.
        """
        ...


CREATING = frozenset((api_keys.CREATE_TOPICS, api_keys.CREATE_PARTITIONS))
"""The API keys of CreateTopics and CreatePartitions."""


class LocalControllerChannel:
    """The channel to a controller in this process.

    `opened(timeout_ms)` waits until this broker serves the new partitions. Then a client can
    produce as soon as it has the response to CreateTopics or CreatePartitions.
    """

    def __init__(
        self, controller: QuorumController, opened: Callable[[int], Awaitable[bool]] | None = None
    ) -> None:
        self._controller = controller
        self._opened = opened

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """Return the controller's response.

        If the request creates partitions, wait until this broker serves them, at most the timeout
        of the request.
        """
        answer = await self._controller.submit(context, request)
        if self._opened is not None and request.API_KEY in CREATING:
            await self._opened(request.timeout_ms)
        return answer
