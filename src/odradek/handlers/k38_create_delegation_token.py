"""CreateDelegationToken (38), versions 1-3: the controller creates a delegation token (KIP-48).

- The token belongs to the client, or from version 3 on to another owner (KIP-373). For another
  owner, the client needs CREATE_TOKENS on the resource of the type USER with the owner's principal
  as name. Otherwise the error is DELEGATION_TOKEN_AUTHORIZATION_FAILED.
- A client that is not authenticated, or that is authenticated by a token, gets
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. A renewer that is no user gets INVALID_PRINCIPAL_TYPE.
- Without `delegation.token.secret.key` the error is DELEGATION_TOKEN_AUTH_DISABLED.
- The response has the HMAC of the token, which is the password. The metadata log has only the id.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.core.controller.delegation_tokens import (
    are_principals_valid,
    create_response,
    owner_of,
)
from odradek.handlers.authorization import AclOperation, permits
from odradek.handlers.delegation_tokens import NO_TIMESTAMP, require_secure
from odradek.handlers.handler import Handler
from odradek.model.acl import AclResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.principal import ANONYMOUS, Principal
from odradek.wire.generated.create_delegation_token_request import CreateDelegationTokenRequest
from odradek.wire.generated.create_delegation_token_response import CreateDelegationTokenResponse

_REFUSALS = frozenset(
    (
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    )
)


async def handle(
    broker: Broker, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Forward the request to the controller, if the client may send it.

    Raises:
        ApiError: see `ControllerChannel.submit`.
    """
    try:
        require_secure(broker, context)
        _check_owner(broker, context, request)
        if not are_principals_valid(request):
            raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    except ApiError as error:
        return _refused(context, request, error.code)
    response: CreateDelegationTokenResponse = await broker.controller.submit(context, request)
    return response


async def handle_on_controller(
    controller: Controller, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Let the controller create the token, if the client may request it.

    Raises:
        ApiError: see `QuorumController.submit`.
    """
    try:
        require_secure(controller, context)
        response = await controller.decisions.submit(context, request)
    except ApiError as error:
        if error.code not in _REFUSALS:
            raise
        return _refused(context, request, error.code)
    assert isinstance(response, CreateDelegationTokenResponse)
    return response


def _check_owner(
    broker: Broker, context: RequestContext, request: CreateDelegationTokenRequest
) -> None:
    """Check that the client may create a token for the owner.

    The controller repeats this check, and logs it. It is made here too, because its error has
    precedence over the error for wrong renewers.

    Raises:
        ApiError: DELEGATION_TOKEN_AUTHORIZATION_FAILED.
    """
    owner = str(owner_of(request, Principal.parse(context.principal)))
    operation, kind = AclOperation.CREATE_TOKENS, AclResourceType.USER
    if owner != context.principal and not permits(
        broker, context, operation, kind, owner, log_allowed=False
    ):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def _refused(
    context: RequestContext, request: CreateDelegationTokenRequest, error: ErrorCode
) -> CreateDelegationTokenResponse:
    requester = Principal.parse(context.principal)
    return _failed(create_response(owner_of(request, requester), requester), error)


def _error_response(
    request: CreateDelegationTokenRequest, error: ApiError
) -> CreateDelegationTokenResponse:
    anonymous = Principal.parse(ANONYMOUS)
    return _failed(create_response(anonymous, anonymous), error.code)


def _failed(
    response: CreateDelegationTokenResponse, error: ErrorCode
) -> CreateDelegationTokenResponse:
    response.error_code = error
    response.issue_timestamp_ms = response.max_timestamp_ms = NO_TIMESTAMP
    response.expiry_timestamp_ms = NO_TIMESTAMP
    return response


HANDLER = Handler(
    request=CreateDelegationTokenRequest,
    handle=handle,
    controller=handle_on_controller,
    error_response=_error_response,
)
