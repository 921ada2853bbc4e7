"""How a broker reaches the active controller."""

from __future__ import annotations

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


class LocalControllerChannel:
    """The controller is in this process."""

    def __init__(self, controller: ControllerNode) -> None:
        self._controller = controller

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """See `ControllerChannel`."""
        version = request.VERSION_MAX if context is None else context.api_version
        return await self._controller.submit(request, version)
