"""Connections to other nodes over TLS and SASL.

`PeerNetwork` is a `Network` whose connections are encrypted and authenticated when `connect`
returns them. So the fetchers, the channels to controllers and brokers, and the metadata quorum work
the same way with and without TLS and SASL. A node that uses neither uses the network directly.

Keys, certificates and trusted certificates are read for each connection. So a new connection uses
changed files. The requests of SASL are made by `odradek.core.sasl.client`. They have fixed
versions, which every release of Apache Kafka since 2.5 serves.

A session is not authenticated again (KIP-368). If it has a lifetime, the other node closes the
connection when it has expired, and the sender of the next request connects again.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from odradek.broker.peer_tokens import NoToken, PeerTokens
from odradek.config.broker_config import BrokerConfig
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
from odradek.env.network import DEFAULT_OPTIONS, Listener, Network, StreamOptions, Transport
from odradek.env.randomness import RandomBytes
from odradek.env.tls_files import PEM, ClientTls, TlsError
from odradek.wire.api import BY_KEY
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.generated.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.generated.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.generated.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.generated.sasl_handshake_response import SaslHandshakeResponse
from odradek.wire.primitives import MalformedMessage, skip_tagged_fields

log = logging.getLogger("odradek.network")

NONCE_BYTES = 20
RESPONSE_BYTES_MAX = 1 << 20
CLIENT_ID = "odradek-node"
_VERSIONS = {SaslHandshakeRequest: 1, SaslAuthenticateRequest: 2}
_RESPONSES: dict[type[SaslRequest], type[SaslResponse]] = {
    SaslHandshakeRequest: SaslHandshakeResponse,
    SaslAuthenticateRequest: SaslAuthenticateResponse,
}
_length = struct.Struct(">i")


class AuthenticationFailed(ConnectionError):
    """The SASL authentication between this node and the other one has failed."""


FindSettings = Callable[[], PeerSettings | None]


class PeerNetwork:
    """A `Network` for connections to one listener of the other nodes."""

    def __init__(
        self, network: Network, find: FindSettings, random_bytes: RandomBytes, tokens: PeerTokens
    ) -> None:
        """`find` returns the newest settings."""
        self._network = network
        self._find = find
        self._random_bytes = random_bytes
        self._tokens = tokens
        self._problems: dict[tuple[str, int], str] = {}
        """The last logged problem of each address."""

    def bind(self, host: str, port: int, options: StreamOptions = DEFAULT_OPTIONS) -> Listener:
        """See `Network`."""
        return self._network.bind(host, port, options)

    async def connect(
        self, host: str, port: int, timeout_ms: int, options: StreamOptions = DEFAULT_OPTIONS
    ) -> Transport:
        """Connect, and authenticate both sides; see `Network`.

        Raises:
            TlsError, AuthenticationFailed: one side does not accept the other.
        """
        settings = self._find()
        assert settings is not None, "the security protocol of a listener does not change"
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                transport = await self._network.connect(
                    host, port, timeout_ms, replace(options, client_tls=client_tls(settings))
                )
                await self._authenticate(transport, settings, host)
        except (TlsError, AuthenticationFailed) as error:
            self._report(host, port, str(error))
            raise
        self._problems.pop((host, port), None)
        return transport

    def _report(self, host: str, port: int, problem: str) -> None:
        """Log a problem once, because each attempt to connect has the same one."""
        if self._problems.get((host, port)) != problem:
            self._problems[host, port] = problem
            log.warning("cannot connect to the node at %s:%d: %s", host, port, problem)

    async def _authenticate(self, transport: Transport, settings: PeerSettings, host: str) -> None:
        if settings.mechanism is None:
            return
        login = settings.kerberos
        if login is None:
            credential = await self._credential(transport, settings, settings.mechanism)
            user = credential.user
            steps = authenticate(credential, self._random_bytes(NONCE_BYTES).hex())
        else:
            user = login.principal or "the user of the ticket cache"
            initiate = partial(kerberos.initiate, login, host)
            steps = authenticate_by(settings.mechanism, kerberos_exchange(initiate))
        run = _next if login is None else self._next_on_thread
        try:
            request = await run(steps, None)
            while request is not None:
                request = await run(steps, await _ask(transport, request))
        except SaslFailure as failure:
            transport.close()
            raise AuthenticationFailed(
                f"SASL {settings.mechanism} as {user}: {failure}"
            ) from failure
        except BaseException:
            transport.close()
            raise

    async def _next_on_thread(
        self, steps: Steps, response: SaslResponse | None
    ) -> SaslRequest | None:
        """As `_next`, for steps that wait for files and for the key distribution centre."""
        return await self._tokens.run(partial(_next_of, steps, response))

    async def _credential(
        self, transport: Transport, settings: PeerSettings, mechanism: str
    ) -> Credential:
        if settings.login is None:
            return Credential(mechanism, settings.user, settings.password.value, settings.is_token)
        try:
            return await self._tokens.credential(settings.login)
        except NoToken as error:
            transport.close()
            raise AuthenticationFailed(f"there is no access token: {error}") from error
        except BaseException:
            transport.close()
            raise


def _next_of(steps: Steps, response: SaslResponse | None) -> SaslRequest | None:
    """Return the next request; None if the connection is authenticated."""
    try:
        return next(steps) if response is None else steps.send(response)
    except StopIteration:
        return None


async def _next(steps: Steps, response: SaslResponse | None) -> SaslRequest | None:
    return _next_of(steps, response)


def client_tls(settings: PeerSettings) -> ClientTls | None:
    """Return what TLS needs for connections to other nodes; None without TLS."""
    tls = settings.tls
    if tls is None:
        return None
    key, trust = tls.key, tls.trust
    return ClientTls(
        trust_file=None if trust is None else trust.file,
        trust_password="" if trust is None else trust.password.value,
        trust_type=PEM if trust is None else trust.type,
        key_file=None if key is None else key.file,
        key_password="" if key is None else key.password.value,
        key_type=PEM if key is None else key.type,
        verifies_host=tls.verifies_host,
        versions=tls.versions,
    )


def peer_networks(
    network: Network,
    find_config: Callable[[], BrokerConfig],
    random_bytes: RandomBytes,
    tokens: PeerTokens,
) -> tuple[Network, Network]:
    """Return the networks for connections to brokers and to controllers.

    `find_config` returns the newest configuration.
    """
    brokers = controllers = network
    config = find_config()
    if config.broker_peers is not None:
        brokers = PeerNetwork(network, lambda: find_config().broker_peers, random_bytes, tokens)
    if config.controller_peers is not None:
        controllers = PeerNetwork(
            network, lambda: find_config().controller_peers, random_bytes, tokens
        )
    return brokers, controllers


async def _ask(transport: Transport, request: SaslRequest) -> SaslResponse:
    """Send a request, and return its response.

    Raises:
        AuthenticationFailed: the response is malformed, or the other node has closed the
            connection.
        OSError: the connection has failed.
    """
    key = request.API_KEY
    assert key is not None
    api, version = BY_KEY[key], _VERSIONS[type(request)]
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=0, client_id=CLIENT_ID
    )
    data = bytes(header.encode(api.request_header_version(version)))
    data += bytes(request.encode(version))
    response = await _exchange(transport, _length.pack(len(data)) + data)
    try:
        position = 4  # after the correlation id
        if api.response_header_version(version):
            tags = response[position]
            position = skip_tagged_fields(response, position + 1, tags) if tags else position + 1
        return _RESPONSES[type(request)].decode(response, version, position)
    except (MalformedMessage, IndexError, ValueError) as error:
        raise AuthenticationFailed(f"the response to {api.name} is malformed: {error}") from error


async def _exchange(transport: Transport, frame: bytes) -> bytes:
    """Send a frame, and return the next frame without its length."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[bytes] = loop.create_future()
    received = bytearray()
    piece = bytearray(4096)

    def receive() -> None:
        if arrived.done():
            return
        try:
            count = transport.recv_into(piece)
            if not count:
                raise AuthenticationFailed("the node closed the connection")
            received.extend(piece[:count])
            if len(received) < _length.size:
                return
            (size,) = _length.unpack_from(received)
            if not _length.size <= size <= RESPONSE_BYTES_MAX:
                raise AuthenticationFailed("the node does not answer as a Kafka node does")
            if len(received) >= _length.size + size:
                arrived.set_result(bytes(received[_length.size :]))
        except BlockingIOError:
            return
        except OSError as error:
            arrived.set_exception(error)

    # A new connection accepts some kilobytes.
    if transport.send(frame) != len(frame):
        raise AuthenticationFailed("the connection accepts no bytes")
    transport.watch_readable(receive)
    try:
        return await arrived
    finally:
        transport.unwatch_readable()
