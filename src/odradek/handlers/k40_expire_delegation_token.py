"""ExpireDelegationToken (40), versions 1-2: a delegation token expires at another time (KIP-48).

- The token is named by its HMAC. Its owner and its renewers may change the time; others get
  DELEGATION_TOKEN_OWNER_MISMATCH. A negative period removes the token at once.
- A client that is not authenticated, or that is authenticated by a token, gets
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.handlers.delegation_tokens import NO_TIMESTAMP, require_secure
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError
from odradek.wire.generated.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.generated.expire_delegation_token_response import ExpireDelegationTokenResponse


async def handle(
    broker: Broker, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Forward the request to the controller, if the client may send it.

    Raises:
        ApiError: see `ControllerChannel.submit`.
    """
    try:
        require_secure(broker, context)
    except ApiError as error:
        return _refused(error)
    response: ExpireDelegationTokenResponse = await broker.controller.submit(context, request)
    return response


async def handle_on_controller(
    controller: Controller, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Let the controller expire the token, if the client may request it.

    Raises:
        ApiError: see `QuorumController.submit`.
    """
    try:
        require_secure(controller, context)
    except ApiError as error:
        return _refused(error)
    response: ExpireDelegationTokenResponse = await controller.decisions.submit(context, request)
    return response


def _refused(error: ApiError) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIMESTAMP)


HANDLER = Handler(
    request=ExpireDelegationTokenRequest,
    versions=(1, 2),
    handle=handle,
    controller=handle_on_controller,
    forwarded=True,
)
