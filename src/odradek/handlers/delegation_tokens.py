"""What the handlers of delegation tokens (KIP-48) have in common."""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.principal import ANONYMOUS

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
