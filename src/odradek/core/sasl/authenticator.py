"""The authentication of one connection, without IO (Kafka's SaslServerAuthenticator).

    HANDSHAKE_OR_VERSIONS --ApiVersions--> HANDSHAKE
    HANDSHAKE_OR_VERSIONS, HANDSHAKE --SaslHandshake--> AUTHENTICATE
    AUTHENTICATE --tokens of the mechanism--> COMPLETE
    COMPLETE --SaslHandshake, if the session expires--> AUTHENTICATE
    every state --an invalid request or a wrong token--> FAILED

The tokens are in SaslAuthenticate requests. After version 0 of SaslHandshake the tokens are sent
without a request around them (`are_tokens_raw`).

If connections.max.reauth.ms is set, the session of a connection expires after this time. If the
client is authenticated by a delegation token or an access token, the session expires at the latest
when the token does. The client must re-authenticate before that (KIP-368), with the same mechanism and the same
user. It may start a re-authentication at most once a second. The caller closes a connection whose
session `is_expired`.

A method that raises `Rejected` or `UnexpectedRequest` has changed the state to FAILED. After
`Rejected` the caller waits for `connection.failed.authentication.delay.ms`, sends the response if
there is one, and closes the connection. After `UnexpectedRequest` the caller closes the connection
at once, without a response.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from odradek.core.sasl.mechanism import MakeMechanism, Mechanism, Rejected
from odradek.model.errors import ErrorCode

REAUTHENTICATION_INTERVAL_MS = 1000
"""Minimum time between two beginnings of authentications after the first one."""


class State(Enum):
    """What the connection must send next; see the module."""

    HANDSHAKE_OR_VERSIONS = "handshake or versions"
    HANDSHAKE = "handshake"
    AUTHENTICATE = "authenticate"
    COMPLETE = "complete"
    FAILED = "failed"


class UnexpectedRequest(Exception):
    """The request does not fit the state. The connection is closed without a response."""


class Answer(NamedTuple):
    """The result of a token that was not rejected."""

    token: bytes
    """The server's token."""
    session_lifetime_ms: int
    """The time in which the client must authenticate again; 0 if the session does not expire, or if
    the authentication is not complete yet."""


class Authenticator:
    """The state of one connection's authentication. The times are monotonic."""

    def __init__(
        self, mechanisms: Mapping[str, MakeMechanism], session_lifetimes_ms: Mapping[str, int]
    ) -> None:
        """`mechanisms` has the enabled mechanisms by name.

        `session_lifetimes_ms` has connections.max.reauth.ms by the name of the mechanism. A session
        without a positive lifetime does not expire.
        """
        self._mechanisms = mechanisms
        self._session_lifetimes_ms = session_lifetimes_ms
        self._mechanism: Mechanism | None = None
        """The mechanism of the current authentication, or of the one that is complete."""
        self._wanted: str | None = None
        """After the first authentication: the name of its mechanism."""
        self._began_again_ms: int | None = None
        """When the client has authenticated again for the last time."""
        self.state = State.HANDSHAKE_OR_VERSIONS
        self.are_tokens_raw = False
        self.user: str | None = None
        """The name of the authenticated user."""
        self.is_by_token = False
        """Whether the user is authenticated by a delegation token (KIP-48)."""
        self.expires_ms: int | None = None
        """When the session expires; None if it does not, or if it has not begun."""

    @property
    def mechanisms(self) -> list[str]:
        """The names of the enabled mechanisms."""
        return list(self._mechanisms)

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the session has expired."""
        return self.expires_ms is not None and now_ms >= self.expires_ms

    def may_begin_again(self, now_ms: int) -> bool:
        """Return whether a SaslHandshake request begins another authentication.

        Otherwise it is a request in the wrong state, which gets an error but does no harm.
        """
        if self.state is not State.COMPLETE or self.expires_ms is None:
            return False
        last_ms = self._began_again_ms
        return last_ms is None or now_ms - last_ms >= REAUTHENTICATION_INTERVAL_MS

    # -- requests -----------------------------------------------------------------------------

    def request_versions(self) -> None:
        """Process an ApiVersions request before it is answered.

        Raises:
            UnexpectedRequest: only the first request may be ApiVersions.
        """
        if self.state is not State.HANDSHAKE_OR_VERSIONS:
            raise self._unexpected("ApiVersions")

    def versions_answered(self) -> None:
        """Process the fact that an ApiVersions request was answered without an error."""
        assert self.state is State.HANDSHAKE_OR_VERSIONS
        self.state = State.HANDSHAKE

    def refuse(self, what: str) -> UnexpectedRequest:
        """Return the error of a request that may not be sent now, and fail."""
        return self._unexpected(what)

    def handshake(self, name: str, version: int, now_ms: int) -> ErrorCode:
        """Process a SaslHandshake request for a mechanism; return the error of the response.

        If there is an error, the authentication has failed.

        Raises:
            UnexpectedRequest: a mechanism has been chosen before.
        """
        if self.state is State.COMPLETE:
            assert self.may_begin_again(now_ms)
            self._began_again_ms = now_ms
        elif self.state not in (State.HANDSHAKE_OR_VERSIONS, State.HANDSHAKE):
            raise self._unexpected("SaslHandshake")
        make = self._mechanisms.get(name)
        if make is None:
            self.state = State.FAILED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._mechanism = make()
        self.are_tokens_raw = version == 0
        self.state = State.AUTHENTICATE
        return ErrorCode.NONE

    def authenticate(self, token: bytes, now_ms: int) -> Answer:
        """Process a token of the client; return the server's token.

        Raises:
            Rejected, TryAgain: the authentication has failed. `Rejected` has the message for the
                client. It has none if the client used another mechanism than before.
            UnexpectedRequest: no mechanism has been chosen.
        """
        mechanism = self.begin_token()
        try:
            answer = mechanism.evaluate(token)
        except Rejected as rejected:
            raise self.rejection(rejected) from rejected
        return self.accept(answer, now_ms)

    def begin_token(self) -> Mechanism:
        """Process the fact that a token has arrived; return the mechanism that evaluates it.

        Until `accept` is called, the authentication counts as failed.

        Raises:
            Rejected, UnexpectedRequest: see `authenticate`.
        """
        if self.state is not State.AUTHENTICATE:
            raise self._unexpected("SaslAuthenticate")
        mechanism = self._mechanism
        assert mechanism is not None
        self.state = State.FAILED  # unless the token is accepted
        if self._wanted not in (None, mechanism.name):
            raise Rejected
        return mechanism

    def rejection(self, rejected: Rejected) -> Rejected:
        """Return what a mechanism has raised, with a message for the client."""
        assert self._mechanism is not None
        message = rejected.message or self._failure(self._mechanism.name)
        return Rejected(message, rejected.reason or message)

    def accept(self, answer: bytes, now_ms: int) -> Answer:
        """Process the server's token that the mechanism has returned.

        Raises:
            Rejected: the client has changed its user.
        """
        mechanism = self._mechanism
        assert mechanism is not None
        if mechanism.user is None:
            self.state = State.AUTHENTICATE
            return Answer(answer, 0)
        if self.user not in (None, mechanism.user):
            raise Rejected(
                "Cannot change principals during re-authentication from "
                f"User.{self.user}: User.{mechanism.user}"
            )
        self.user, self._wanted = mechanism.user, mechanism.name
        self.is_by_token = mechanism.is_by_delegation_token
        lifetime_ms = self._lifetime_ms(mechanism, now_ms)
        self.expires_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        self.state = State.COMPLETE
        return Answer(answer, lifetime_ms or 0)

    def _lifetime_ms(self, mechanism: Mechanism, now_ms: int) -> int | None:
        """Return the lifetime of the session that begins; None if it does not expire."""
        lifetime_ms = self._session_lifetimes_ms.get(mechanism.name, 0)
        limits = [lifetime_ms] if lifetime_ms > 0 else []
        if mechanism.token_expires_ms is not None:
            limits.append(max(0, mechanism.token_expires_ms - now_ms))
        return min(limits, default=None)

    def _failure(self, mechanism: str) -> str:
        kind = "authentication" if self.user is None else "re-authentication"
        return (
            f"Authentication failed during {kind} due to invalid credentials with SASL mechanism "
            f"{mechanism}"
        )

    def _unexpected(self, what: str) -> UnexpectedRequest:
        expected = self.state
        self.state = State.FAILED
        return UnexpectedRequest(f"{what} is not expected in the state {expected.value}")
