"""The channel of a node that is a controller itself.

While this node is the active controller, requests are processed in this process. Otherwise they are
sent over the network to the active controller.
"""

from __future__ import annotations

from typing import Any

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.channel import LocalControllerChannel
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.controller.remote_channel import RemoteControllerChannel
from odradek.model.errors import ApiError, ErrorCode


class MemberControllerChannel:
    """A `ControllerChannel` of a controller. Use it only on the event loop's thread."""

    def __init__(
        self,
        controller: QuorumController,
        local: LocalControllerChannel,
        remote: RemoteControllerChannel,
    ) -> None:
        """`local` is the channel to `controller`, which is in this process."""
        self._controller = controller
        self._local = local
        self._remote = remote

    async def submit(self, context: RequestContext | None, request: Any) -> Any:
        """Return the active controller's response; see `ControllerChannel`.

        If this node stops leading before the decision is committed, the request is repeated.

        Raises:
            ApiError: REQUEST_TIMED_OUT (no active controller has responded in time), or an error
                of the whole request.
        """
        if self._controller.is_active:
            try:
                return await self._local.submit(context, request)
            except ApiError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
        return await self._remote.submit(context, request)

    def close(self) -> None:
        """Close the connection; requests are not repeated any more."""
        self._remote.close()
