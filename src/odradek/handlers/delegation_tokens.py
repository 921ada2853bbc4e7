"""What the handlers of delegation tokens (KIP-48) have in common."""

from __future__ import annotations

from typing import Any

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.principal import ANONYMOUS
from odradek.wire.primitives import Message

NO_TIMESTAMP = -1
"""The timestamps in the response to a request that was not processed."""


def require_secure(node: Broker | Controller, context: RequestContext) -> None:
    """Check that a client may request tokens over its connection.

    It may not if it is not authenticated, or if it is authenticated by a token. A forwarded request
    has been checked by the broker that has received it, which knows the client's listener.

    Raises:
        ApiError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
    """
    protocol = "" if context.peer.is_forwarded else _protocol(node, context.listener)
    is_open = protocol == "PLAINTEXT" or (protocol == "SSL" and context.principal == ANONYMOUS)
    if is_open or context.peer.is_token_authenticated:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _protocol(node: Broker | Controller, listener: str) -> str:
    return next(each.security_protocol for each in node.config.listeners if each.name == listener)


def expiry_handler(request_class: type[Message], response_class: type[Any]) -> Handler:
    """Return the handler of an API that changes when a token expires.

    The controller decides. The response has an error and the time at which the token expires.
    """

    def refused(error: ApiError) -> Any:
        return response_class(error_code=error.code, expiry_timestamp_ms=NO_TIMESTAMP)

    async def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
        try:
            require_secure(broker, context)
        except ApiError as error:
            return refused(error)
        return await broker.controller.submit(context, request)

    async def handle_on_controller(
        controller: Controller, context: RequestContext, request: Any
    ) -> Any:
        try:
            require_secure(controller, context)
        except ApiError as error:
            return refused(error)
        return await controller.decisions.submit(context, request)

    return Handler(
        request=request_class,
        handle=handle,
        controller=handle_on_controller,
    )
