"""Decides on delegation tokens (Kafka's DelegationTokenControlManager, KIP-48, KIP-373).

A token expires `delegation.token.expiry.time.ms` after it was created or renewed, and at the latest
`delegation.token.max.lifetime.ms` after it was created. Its owner and its renewers may renew it and
may let it expire earlier. `sweep` removes the tokens that have expired.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.core.controller.state import ControllerState, Decision
from odradek.core.metadata.image import DelegationToken
from odradek.core.metadata.snapshot import token_record
from odradek.core.metadata.versions import LEVEL_DELEGATION_TOKENS
from odradek.model import uuids
from odradek.model.errors import ErrorCode
from odradek.model.principal import USER_TYPE, Principal
from odradek.wire.generated.create_delegation_token_request import CreateDelegationTokenRequest
from odradek.wire.generated.create_delegation_token_response import CreateDelegationTokenResponse
from odradek.wire.generated.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.generated.expire_delegation_token_response import ExpireDelegationTokenResponse
from odradek.wire.generated.remove_delegation_token_record import RemoveDelegationTokenRecord
from odradek.wire.generated.renew_delegation_token_request import RenewDelegationTokenRequest
from odradek.wire.generated.renew_delegation_token_response import RenewDelegationTokenResponse
from odradek.wire.primitives import Message

REMOVALS_MAX = 1000
"""Maximum number of tokens that one `sweep` removes, as in Apache Kafka."""
TIMESTAMP_MAX = 2**63 - 1


class _Found(NamedTuple):
    """The token that a request names by its HMAC."""

    token_id: str
    token: DelegationToken


def create_delegation_token(
    state: ControllerState, request: CreateDelegationTokenRequest, version: int
) -> Decision[CreateDelegationTokenResponse]:
    """Create a token for the requester, or for the owner that the request names."""
    requester = Principal.parse(state.requester)
    owner = owner_of(request, requester)
    response = create_response(owner, requester)
    error = _refusal(state)
    if error is None and not are_principals_valid(request):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    if error is not None:
        response.error_code = error
        return Decision([], response)
    now_ms = state.wall_ms
    lifetime_ms = state.config.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_timestamp = _later(now_ms, lifetime_ms)
    expiry_timestamp = min(
        max_timestamp, _later(now_ms, state.config.delegation_token_expiry_time_ms)
    )
    token_id = _new_id(state)
    renewers = tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
    token = DelegationToken(
        str(owner), str(requester), renewers, now_ms, max_timestamp, expiry_timestamp
    )
    response.issue_timestamp_ms = now_ms
    response.max_timestamp_ms = max_timestamp
    response.expiry_timestamp_ms = expiry_timestamp
    response.token_id = token_id
    response.hmac = state.token_ids.hmac(token_id)
    return Decision([token_record(token_id, token)], response)


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Return the owner of the token that a request creates."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def are_principals_valid(request: CreateDelegationTokenRequest) -> bool:
    """Return whether all renewers are users, and a named owner has a type."""
    if request.owner_principal_name and request.owner_principal_type is None:
        return False
    return all(each.principal_type == USER_TYPE for each in request.renewers)


def create_response(owner: Principal, requester: Principal) -> CreateDelegationTokenResponse:
    """Return a response without a token."""
    return CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )


def renew_delegation_token(
    state: ControllerState, request: RenewDelegationTokenRequest, version: int
) -> Decision[RenewDelegationTokenResponse]:
    """Let a token expire later."""
    found = _find(state, request.hmac)
    if isinstance(found, _Found) and _is_expired(found.token, state.wall_ms):
        found = ErrorCode.DELEGATION_TOKEN_EXPIRED
    if isinstance(found, _Found) and not _may_renew(state, found.token):
        found = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if not isinstance(found, _Found):
        return Decision([], RenewDelegationTokenResponse(error_code=found))
    period_ms = state.config.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    record, timestamp = _expiring(found, state.wall_ms, period_ms)
    return Decision([record], RenewDelegationTokenResponse(expiry_timestamp_ms=timestamp))


def expire_delegation_token(
    state: ControllerState, request: ExpireDelegationTokenRequest, version: int
) -> Decision[ExpireDelegationTokenResponse]:
    """Change the time at which a token expires. A negative period removes the token at once."""
    found = _find(state, request.hmac)
    if isinstance(found, _Found) and not _may_renew(state, found.token):
        found = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    period_ms = request.expiry_time_period_ms
    if isinstance(found, _Found) and period_ms < 0:
        removal = RemoveDelegationTokenRecord(token_id=found.token_id)
        return Decision([removal], ExpireDelegationTokenResponse(expiry_timestamp_ms=state.wall_ms))
    if isinstance(found, _Found) and _is_expired(found.token, state.wall_ms):
        found = ErrorCode.DELEGATION_TOKEN_EXPIRED
    if not isinstance(found, _Found):
        return Decision([], ExpireDelegationTokenResponse(error_code=found))
    record, timestamp = _expiring(found, state.wall_ms, period_ms)
    return Decision([record], ExpireDelegationTokenResponse(expiry_timestamp_ms=timestamp))


def sweep(state: ControllerState) -> Decision[str]:
    """Remove tokens that have expired."""
    records: list[Message] = []
    for token_id, token in state.image.delegation_tokens.items():
        if _is_expired(token, state.wall_ms):
            records.append(RemoveDelegationTokenRecord(token_id=token_id))
            if len(records) == REMOVALS_MAX:
                break
    text = f"{len(records)} delegation tokens have expired" if records else ""
    return Decision(records, text, is_atomic=False)


def _refusal(state: ControllerState) -> ErrorCode | None:
    """Return why there are no delegation tokens; None if there may be some."""
    if not state.token_ids.is_enabled:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if state.level < LEVEL_DELEGATION_TOKENS:
        return ErrorCode.UNSUPPORTED_VERSION
    return None


def _find(state: ControllerState, hmac: bytes) -> _Found | ErrorCode:
    error = _refusal(state)
    if error is not None:
        return error
    token_id = state.token_ids.of(bytes(hmac))
    if token_id is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    return _Found(token_id, state.image.delegation_tokens[token_id])


def _is_expired(token: DelegationToken, now_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def _may_renew(state: ControllerState, token: DelegationToken) -> bool:
    return state.requester == token.owner or state.requester in token.renewers


def _expiring(found: _Found, now_ms: int, period_ms: int) -> tuple[Message, int]:
    """Return the record with which a token expires after a time, and the timestamp."""
    timestamp = min(found.token.max_timestamp, _later(now_ms, period_ms))
    changed = found.token._replace(expiration_timestamp=timestamp)
    return token_record(found.token_id, changed), timestamp


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, TIMESTAMP_MAX)


def _new_id(state: ControllerState) -> str:
    while True:
        token_id = uuids.to_text(uuids.make(state.random_bytes(16)))
        if not token_id.startswith("-"):
            return token_id
