"""RenewDelegationToken (39), versions 1-2: a delegation token expires later (KIP-48).

- The token is named by its HMAC. Its owner and its renewers may renew it; others get
  DELEGATION_TOKEN_OWNER_MISMATCH. It lives at most `delegation.token.max.lifetime.ms`.
- A period that is not positive stands for `delegation.token.expiry.time.ms`.
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
from odradek.wire.generated.renew_delegation_token_request import RenewDelegationTokenRequest
from odradek.wire.generated.renew_delegation_token_response import RenewDelegationTokenResponse


async def handle(
    broker: Broker, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Forward the request to the controller, if the client may send it.

    Raises:
        ApiError: see `ControllerChannel.submit`.
    """
    try:
        require_secure(broker, context)
    except ApiError as error:
        return _refused(error)
    response: RenewDelegationTokenResponse = await broker.controller.submit(context, request)
    return response


async def handle_on_controller(
    controller: Controller, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Let the controller renew the token, if the client may request it.

    Raises:
        ApiError: see `QuorumController.submit`.
    """
    try:
        require_secure(controller, context)
    except ApiError as error:
        return _refused(error)
    response: RenewDelegationTokenResponse = await controller.decisions.submit(context, request)
    return response


def _refused(error: ApiError) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIMESTAMP)


HANDLER = Handler(
    request=RenewDelegationTokenRequest,
    versions=(1, 2),
    handle=handle,
    controller=handle_on_controller,
    forwarded=True,
)
