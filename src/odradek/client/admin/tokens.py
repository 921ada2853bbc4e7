"""Delegation tokens (KIP-48, KIP-373)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, check
from odradek.core.sasl.delegation_tokens import token_password
from odradek.model.errors import ErrorCode
from odradek.model.principal import Principal
from odradek.wire.generated.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from odradek.wire.generated.create_delegation_token_response import CreateDelegationTokenResponse
from odradek.wire.generated.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from odradek.wire.generated.describe_delegation_token_response import (
    DescribeDelegationTokenResponse,
)
from odradek.wire.generated.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.generated.expire_delegation_token_response import ExpireDelegationTokenResponse
from odradek.wire.generated.renew_delegation_token_request import RenewDelegationTokenRequest
from odradek.wire.generated.renew_delegation_token_response import RenewDelegationTokenResponse

ADVICE = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
        "Set delegation.token.secret.key to the same value on all nodes."
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "Log in with a password or a certificate: tokens are not given to clients without one, nor "
        "to clients that have logged in with a token."
    ),
    ErrorCode.INVALID_PRINCIPAL_TYPE: "Owners and renewers of tokens must be users: User:NAME",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "See which tokens there are: odradek token list",
}
"""Advice by error code."""


@dataclass(frozen=True, slots=True)
class Token:
    """A delegation token. Timestamps are milliseconds since 1970."""

    id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    lives_until_ms: int
    """The token cannot be renewed beyond this time."""

    @property
    def password(self) -> str:
        """The password of the user whose name is the token's id."""
        return token_password(self.hmac)


def create_token(
    cluster: Cluster,
    *,
    owner: str | None = None,
    renewers: Sequence[str] = (),
    lifetime_ms: int = -1,
) -> Token:
    """Create a token for this client, or for another owner.

    Raises:
        ClientError: the controller does not respond, or refuses.
    """
    named = None if owner is None else Principal.parse(owner)
    request = CreateDelegationTokenRequest(
        owner_principal_type=None if named is None else named.type,
        owner_principal_name=None if named is None else named.name,
        renewers=[
            CreatableRenewers(principal_type=each.type, principal_name=each.name)
            for each in map(Principal.parse, renewers)
        ],
        max_lifetime_ms=lifetime_ms,
    )
    response = cluster.ask_controller(
        request, CreateDelegationTokenResponse, lambda r: _check(r.error_code, "the token")
    )
    return Token(
        id=response.token_id,
        hmac=bytes(response.hmac),
        owner=f"{response.principal_type}:{response.principal_name}",
        requester=(
            f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"
        ),
        renewers=tuple(renewers),
        issued_ms=response.issue_timestamp_ms,
        expires_ms=response.expiry_timestamp_ms,
        lives_until_ms=response.max_timestamp_ms,
    )


def describe_tokens(cluster: Cluster, owners: Iterable[str] | None = None) -> list[Token]:
    """Return the tokens of some owners, or all, that this client may see.

    Raises:
        ClientError: the broker does not respond, or rejects the request.
    """
    named = None
    if owners is not None:
        named = [
            DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name)
            for each in map(Principal.parse, owners)
        ]
    response = cluster.ask_any(
        DescribeDelegationTokenRequest(owners=named),
        DescribeDelegationTokenResponse,
        lambda r: _check(r.error_code, "tokens"),
    )
    found = [
        Token(
            id=each.token_id,
            hmac=bytes(each.hmac),
            owner=f"{each.principal_type}:{each.principal_name}",
            requester=(
                f"{each.token_requester_principal_type}:{each.token_requester_principal_name}"
            ),
            renewers=tuple(f"{r.principal_type}:{r.principal_name}" for r in each.renewers),
            issued_ms=each.issue_timestamp,
            expires_ms=each.expiry_timestamp,
            lives_until_ms=each.max_timestamp,
        )
        for each in response.tokens
    ]
    return sorted(found, key=lambda token: (token.owner, token.issued_ms, token.id))


def find_token(cluster: Cluster, token_id: str) -> Token:
    """Return the token with this id.

    Raises:
        ClientError: the broker does not respond, or this client sees no such token.
    """
    for each in describe_tokens(cluster):
        if each.id == token_id:
            return each
    raise _error(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, f"token {token_id}")


def renew_token(cluster: Cluster, token: Token, period_ms: int = -1) -> int:
    """Let a token expire later; return the time at which it expires.

    Raises:
        ClientError: the controller does not respond, or refuses.
    """
    response = cluster.ask_controller(
        RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms),
        RenewDelegationTokenResponse,
        lambda r: _check(r.error_code, f"token {token.id}"),
    )
    return response.expiry_timestamp_ms


def expire_token(cluster: Cluster, token: Token, period_ms: int = -1) -> int:
    """Let a token expire after a time, or remove it if the time is negative.

    Return the time at which it expires.

    Raises:
        ClientError: the controller does not respond, or refuses.
    """
    response = cluster.ask_controller(
        ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms),
        ExpireDelegationTokenResponse,
        lambda r: _check(r.error_code, f"token {token.id}"),
    )
    return response.expiry_timestamp_ms


def _check(value: int, subject: str) -> None:
    try:
        check(value, None, subject)
    except BrokerError as error:
        raise _error(error.code, subject) from error


def _error(code: ErrorCode, subject: str) -> BrokerError:
    return BrokerError(code, None, subject, ADVICE.get(code, ""))
