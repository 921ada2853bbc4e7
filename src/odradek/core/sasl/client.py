"""The client's side of SASL, without IO: the requests that authenticate a connection.

`authenticate` is a generator. It yields SaslHandshake and SaslAuthenticate requests, and gets their
responses. The tokens in them come from an exchange, which is also a generator: it yields the
client's tokens and gets the server's tokens. The exchange of SCRAM is described in `scram`, that of
GSSAPI in `gssapi`.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Generator
from typing import NamedTuple

from odradek.config.kerberos import GSSAPI
from odradek.config.oauth import OAUTHBEARER
from odradek.core.sasl.plain import PLAIN
from odradek.core.sasl.scram_keys import (
    BY_NAME,
    ITERATIONS_MIN,
    ScramMechanism,
    digest,
    salted_password,
    signature,
)
from odradek.env.kerberos import KerberosError, SecurityContext
from odradek.model.errors import ErrorCode
from odradek.wire.generated.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.generated.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.generated.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.generated.sasl_handshake_response import SaslHandshakeResponse

MECHANISMS = (PLAIN, *BY_NAME, OAUTHBEARER, GSSAPI)
"""The mechanisms of this client."""

ITERATIONS_MAX = 1_000_000
"""A server that asks for more iterations is refused, because they would take seconds."""

SaslRequest = SaslHandshakeRequest | SaslAuthenticateRequest
SaslResponse = SaslHandshakeResponse | SaslAuthenticateResponse
Exchange = Generator[bytes, bytes, None]
Steps = Generator[SaslRequest, SaslResponse, int]

_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9/+]+={0,2}),i=(?P<count>[0-9]{1,9})"
    r"(?:,.*)?"
)


class Credential(NamedTuple):
    """A user's name and password, and the mechanism that sends or proves the password.

    The mechanism of a delegation token is one of SCRAM. With OAUTHBEARER the password is an access
    token.
    """

    mechanism: str
    user: str
    password: str
    is_token: bool = False
    """Whether `user` is the id of a delegation token, and `password` its HMAC in base64."""
    extensions: tuple[tuple[str, str], ...] = ()
    """The extensions of OAUTHBEARER."""

    def __repr__(self) -> str:
        return f"Credential({self.mechanism}, {self.user})"


class SaslFailure(Exception):
    """The connection cannot be authenticated. The message does not contain the password."""


class SaslNotExpected(SaslFailure):
    """The listener does not use SASL."""


class MechanismNotEnabled(SaslFailure):
    """The listener does not enable the mechanism. The message names the enabled ones."""


class CredentialRefused(SaslFailure):
    """The server does not accept the user or the password."""


class KerberosFailed(SaslFailure):
    """There is no ticket for the server, or the server is not the one of the ticket."""


class ServerNotAuthentic(SaslFailure):
    """The server has not proved that it knows the user's credential."""


def authenticate(credential: Credential, nonce: str) -> Steps:
    """Yield the requests, and return the lifetime of the session in ms; 0 if it does not expire.

    `nonce` has random printable characters without a comma. It must be new for each call.

    Raises:
        SaslFailure: see the subclasses.
    """
    return authenticate_by(credential.mechanism, _exchange(credential, nonce))


def authenticate_by(mechanism: str, exchange: Exchange) -> Steps:
    """As `authenticate`, with the tokens of an exchange of the mechanism."""
    response = yield SaslHandshakeRequest(mechanism=mechanism)
    assert isinstance(response, SaslHandshakeResponse)
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        enabled = ", ".join(response.mechanisms) or "none"
        raise MechanismNotEnabled(f"the mechanism {mechanism} is not enabled; enabled: {enabled}")
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise SaslNotExpected("the listener does not use SASL")
    if response.error_code:
        raise SaslFailure(f"SaslHandshake has the error {response.error_code}")
    lifetime_ms = 0
    try:
        token = next(exchange)
        while True:
            answer = yield SaslAuthenticateRequest(auth_bytes=token)
            assert isinstance(answer, SaslAuthenticateResponse)
            if answer.error_code:
                raise CredentialRefused(answer.error_message or "the server gives no reason")
            lifetime_ms = answer.session_lifetime_ms
            token = exchange.send(bytes(answer.auth_bytes))
    except StopIteration:
        return lifetime_ms


def _exchange(credential: Credential, nonce: str) -> Exchange:
    if credential.mechanism == OAUTHBEARER:
        return _bearer(credential)
    mechanism = BY_NAME.get(credential.mechanism)
    if mechanism is None:
        assert credential.mechanism == PLAIN, "the mechanism was checked before"
        return _plain(credential)
    return _scram(mechanism, credential, nonce)


def _plain(credential: Credential) -> Exchange:
    yield f"\0{credential.user}\0{credential.password}".encode()


def _bearer(credential: Credential) -> Exchange:
    from odradek.core.sasl.oauth_bearer import AFTER_ERROR, client_message  # few clients need it

    error = yield client_message(credential.password, dict(credential.extensions))
    if error:
        yield AFTER_ERROR  # the response to this fails
        raise CredentialRefused(error.decode("utf-8", "replace"))


def _scram(mechanism: ScramMechanism, credential: Credential, nonce: str) -> Exchange:
    user = credential.user.replace("=", "=3D").replace(",", "=2C")
    extensions = ",tokenauth=true" if credential.is_token else ""  # KIP-48
    first = f"n={user},r={nonce}{extensions}"
    challenge = (yield f"n,,{first}".encode()).decode("utf-8", "replace")
    found = _SERVER_FIRST.fullmatch(challenge)
    if found is None or not found["nonce"].startswith(nonce) or found["nonce"] == nonce:
        raise ServerNotAuthentic("the server's first message of SCRAM is malformed")
    iterations = int(found["count"])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ServerNotAuthentic(
            f"the server asks for {iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} "
            "are allowed"
        )
    salted = salted_password(mechanism, credential.password, _decoded(found["salt"]), iterations)
    final = f"c=biws,r={found['nonce']}"
    signed = f"{first},{challenge},{final}".encode()
    client_key = signature(mechanism, salted, b"Client Key")
    client_signature = signature(mechanism, digest(mechanism, client_key), signed)
    proof = bytes(a ^ b for a, b in zip(client_key, client_signature, strict=True))
    last = (yield f"{final},p={base64.b64encode(proof).decode()}".encode()).decode(
        "utf-8", "replace"
    )
    expected = signature(mechanism, signature(mechanism, salted, b"Server Key"), signed)
    if not last.startswith("v=") or not hmac.compare_digest(
        _decoded(last[2:].partition(",")[0]), expected
    ):
        raise ServerNotAuthentic("the server has not proved that it knows the credential")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ServerNotAuthentic("a message of the server is malformed") from None


def kerberos_exchange(initiate: Callable[[], SecurityContext]) -> Exchange:
    """Return the exchange of GSSAPI. `initiate` creates the security context.

    The exchange asks the key distribution centre for a ticket, and waits for it.
    """
    from odradek.core.sasl.gssapi import client_tokens  # few clients need it

    try:
        yield from client_tokens(initiate)
    except KerberosError as error:
        raise KerberosFailed(f"Kerberos: {error}") from error
