"""DescribeDelegationToken (41), versions 1-3: delegation tokens with their HMACs (KIP-48, KIP-373).

- Null requests the tokens of all owners, and an empty list none. A token also belongs to the
  requested principals if they are its requester or one of its renewers.
- A client sees the tokens of which it is the owner, the requester or a renewer. Other tokens need
  DESCRIBE on the token, or DESCRIBE_TOKENS on the resource of the type USER with the owner's
  principal as name. Tokens that the client may not see are left out.
- A client that is not authenticated, or that is authenticated by a token, gets
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. Without `delegation.token.secret.key` the error is
  DELEGATION_TOKEN_AUTH_DISABLED.
- The metadata of this node is described. It may lag behind the controller's.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.core.metadata.image import DelegationToken
from odradek.handlers.authorization import AclOperation, permits
from odradek.handlers.delegation_tokens import require_secure
from odradek.handlers.handler import Handler
from odradek.model.acl import AclResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.principal import Principal
from odradek.wire.generated.describe_delegation_token_request import (
    DescribeDelegationTokenRequest,
)
from odradek.wire.generated.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)


def handle(
    node: Broker | Controller, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Return the tokens that the client may see.

    Raises:
        ApiError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED.
    """
    require_secure(node, context)
    if not node.tokens.is_enabled:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    wanted = None
    if request.owners is not None:
        wanted = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    tokens = [
        _described(token, token_id, node.tokens.hmac(token_id))
        for token_id, token in node.metadata.image.delegation_tokens.items()
        if (wanted is None or not wanted.isdisjoint(_principals(token)))
        and _may_see(node, context, token_id, token)
    ]
    return DescribeDelegationTokenResponse(tokens=tokens)


def _principals(token: DelegationToken) -> tuple[str, ...]:
    return token.owner, token.requester, *token.renewers


def _may_see(
    node: Broker | Controller, context: RequestContext, token_id: str, token: DelegationToken
) -> bool:
    if context.principal in _principals(token):
        return True
    describe, of_owner = AclOperation.DESCRIBE, AclOperation.DESCRIBE_TOKENS
    kind = AclResourceType.DELEGATION_TOKEN
    return permits(node, context, describe, kind, token_id) or permits(
        node, context, of_owner, AclResourceType.USER, token.owner
    )


def _described(token: DelegationToken, token_id: str, hmac: bytes) -> DescribedDelegationToken:
    owner, requester = Principal.parse(token.owner), Principal.parse(token.requester)
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in map(Principal.parse, token.renewers)
        ],
    )


HANDLER = Handler(request=DescribeDelegationTokenRequest, handle=handle, controller=handle)
