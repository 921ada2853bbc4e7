"""SASL on connections to other nodes.

`PeerSasl` authenticates a connection, or authenticates it again (KIP-368), with the newest settings. Its
caller sends the requests. They are made by `odradek.core.sasl.client`, and have fixed versions, which
every release of Apache Kafka since 2.5 serves.
"""

from __future__ import annotations

from functools import partial

from odradek.broker.peers.tokens import NoToken, PeerTokens
from odradek.config.peers import PeerSettings
from odradek.core.sasl.client import (
    Credential,
    SaslFailure,
    SaslRequest,
    SaslResponse,
    Steps,
    authenticate,
    authenticate_by,
    kerberos_exchange,
)
from odradek.env import kerberos
from odradek.env.randomness import RandomBytes
from odradek.network.sessions import Ask, PlainRequest
from odradek.wire.api import BY_KEY, Api
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.generated.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.generated.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.generated.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.generated.sasl_handshake_response import SaslHandshakeResponse
from odradek.wire.primitives import MalformedMessage, skip_tagged_fields

NONCE_BYTES = 20
CLIENT_ID = "odradek-node"
_AFTER_CORRELATION_ID = 8
"""The position in the header of a request after the API key, the version and the correlation id."""
_VERSIONS = {SaslHandshakeRequest: 1, SaslAuthenticateRequest: 2}
_RESPONSES: dict[type[SaslRequest], type[SaslResponse]] = {
    SaslHandshakeRequest: SaslHandshakeResponse,
    SaslAuthenticateRequest: SaslAuthenticateResponse,
}


class AuthenticationFailed(ConnectionError):
    """The SASL authentication between this node and the other one has failed."""


class PeerSasl:
    """Authenticates connections to one listener of the other nodes."""

    def __init__(self, random_bytes: RandomBytes, tokens: PeerTokens) -> None:
        self._random_bytes = random_bytes
        self._tokens = tokens

    async def authenticate(self, settings: PeerSettings, host: str, ask: Ask) -> int:
        """Authenticate a connection to a host; return the lifetime of the session in ms.

        The lifetime is 0 if the session does not expire.

        Raises:
            AuthenticationFailed: one side does not accept the other.
            OSError: the connection has failed.
        """
        login, mechanism = settings.kerberos, settings.mechanism
        assert mechanism is not None, "the listener uses SASL"
        if login is None:
            credential = await self._credential(settings, mechanism)
            user = credential.user
            steps = authenticate(credential, self._random_bytes(NONCE_BYTES).hex())
        else:
            user = login.principal or "the user of the ticket cache"
            initiate = partial(kerberos.initiate, login, host)
            steps = authenticate_by(mechanism, kerberos_exchange(initiate))
        try:
            next_step = await self._next(steps, None, is_slow=login is not None)
            while not isinstance(next_step, int):
                response = await _answer(ask, next_step)
                next_step = await self._next(steps, response, is_slow=login is not None)
        except SaslFailure as failure:
            raise AuthenticationFailed(f"SASL {mechanism} as {user}: {failure}") from failure
        return next_step

    async def _next(
        self, steps: Steps, response: SaslResponse | None, *, is_slow: bool
    ) -> SaslRequest | int:
        """Return the next request, or the lifetime of the session.

        Slow steps wait for files and for the key distribution centre.
        """
        if is_slow:
            return await self._tokens.run(partial(_next_of, steps, response))
        return _next_of(steps, response)

    async def _credential(self, settings: PeerSettings, mechanism: str) -> Credential:
        if settings.login is None:
            return Credential(mechanism, settings.user, settings.password.value, settings.is_token)
        try:
            return await self._tokens.credential(settings.login)
        except NoToken as error:
            raise AuthenticationFailed(f"there is no access token: {error}") from error


def _next_of(steps: Steps, response: SaslResponse | None) -> SaslRequest | int:
    try:
        return next(steps) if response is None else steps.send(response)
    except StopIteration as done:
        lifetime_ms: int = done.value
        return lifetime_ms


async def _answer(ask: Ask, request: SaslRequest) -> SaslResponse:
    """Send a request, and return its response.

    Raises:
        AuthenticationFailed: the response is malformed.
        OSError: the connection has failed.
    """
    key = request.API_KEY
    assert key is not None
    api, version = BY_KEY[key], _VERSIONS[type(request)]
    response = await ask(_encoded(api, version, request))
    try:
        position = 0
        if api.response_header_version(version):
            tags = response[0]
            position = skip_tagged_fields(response, 1, tags) if tags else 1
        return _RESPONSES[type(request)].decode(response, version, position)
    except (MalformedMessage, IndexError, ValueError) as error:
        raise AuthenticationFailed(f"the response to {api.name} is malformed: {error}") from error


def _encoded(api: Api, version: int, request: SaslRequest) -> PlainRequest:
    header = RequestHeader(
        request_api_key=api.key, request_api_version=version, correlation_id=0, client_id=CLIENT_ID
    )
    data = bytes(header.encode(api.request_header_version(version)))[_AFTER_CORRELATION_ID:]
    return api.key, version, [data, bytes(request.encode(version))]
