"""How a broker reaches the active controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.context import RequestContext

if TYPE_CHECKING:
    from odradek.broker.controller.controller_node import ControllerNode


class ControllerChannel(Protocol):
    """Sends requests to the active controller, wherever it is."""

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """The answer to a request, once what it changes is committed.

        `context` is that of the client whose request is passed on; None if this node itself asks,
        which uses the newest version of the API.

        Raises:
            ApiError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or an error of the whole request.
        """
        ...


CREATING = frozenset((19, 37))
"""CreateTopics and CreatePartitions, by API key."""


class LocalControllerChannel:
    """The controller is in this process.

    `opened(timeout_ms)` waits until the partitions that were created are served here: who has
    created some may write to them when the answer comes.
    """

    def __init__(
        self, controller: ControllerNode, opened: Callable[[int], Awaitable[bool]] | None = None
    ) -> None:
        self._controller = controller
        self._opened = opened

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """See `ControllerChannel`."""
        version = request.VERSION_MAX if context is None else context.api_version
        answer = await self._controller.submit(request, version)
        if self._opened is not None and request.API_KEY in CREATING:
            await self._opened(request.timeout_ms)
        return answer
