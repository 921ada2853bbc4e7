"""Connections to other nodes over TLS and SASL.

`PeerNetwork` is a `Network` whose connections are encrypted and authenticated when `connect`
returns them. So the fetchers, the channels to controllers and brokers, and the metadata quorum work
the same way with and without TLS and SASL. A node that uses neither uses the network directly.

Keys, certificates and trusted certificates are read for each connection. So a new connection uses
changed files.

If a session has a lifetime (KIP-368), `NodeClient` renews it in the last part of the lifetime, as
Apache Kafka's brokers and controllers do (`SaslClientAuthenticator.ReauthInfo`).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from odradek.broker.peers.sasl import AuthenticationFailed, PeerSasl
from odradek.broker.peers.tokens import PeerTokens
from odradek.config.broker_config import BrokerConfig
from odradek.config.peers import PeerSettings
from odradek.env.network import DEFAULT_OPTIONS, Listener, Network, StreamOptions, Transport
from odradek.env.randomness import RandomBytes
from odradek.env.tls_files import PEM, ClientTls, TlsError
from odradek.network.sessions import Ask, PlainRequest, Session

__all__ = ["AuthenticationFailed", "PeerNetwork", "client_tls", "peer_networks"]

log = logging.getLogger("odradek.network")

RESPONSE_BYTES_MAX = 1 << 20
SESSION_USED, SESSION_JITTER = 0.85, 0.10
"""A session is renewed after this part of its lifetime, plus a random part up to the jitter, so that
nodes do not renew many sessions at the same time."""
_CORRELATION_ID_BYTES = 4
_CHANCES = 1 << 32
_length = struct.Struct(">i")
_head = struct.Struct(">ihhi")

FindSettings = Callable[[], PeerSettings | None]


class PeerNetwork:
    """A `SessionNetwork` for connections to one listener of the other nodes."""

    def __init__(
        self, network: Network, find: FindSettings, random_bytes: RandomBytes, tokens: PeerTokens
    ) -> None:
        """`find` returns the newest settings."""
        self._network = network
        self._find = find
        self._random_bytes = random_bytes
        self._sasl = PeerSasl(random_bytes, tokens)
        self._problems: dict[tuple[str, int], str] = {}
        """The last logged problem of each address."""

    def bind(self, host: str, port: int, options: StreamOptions = DEFAULT_OPTIONS) -> Listener:
        """See `Network`."""
        return self._network.bind(host, port, options)

    def own_host(self) -> str:
        """See `Network`."""
        return self._network.own_host()

    async def connect(
        self, host: str, port: int, timeout_ms: int, options: StreamOptions = DEFAULT_OPTIONS
    ) -> Transport:
        """As `connect_session`, without the session."""
        transport, _ = await self.connect_session(host, port, timeout_ms, options)
        return transport

    async def connect_session(
        self, host: str, port: int, timeout_ms: int, options: StreamOptions
    ) -> tuple[Transport, Session | None]:
        """Connect, and authenticate both sides; see `SessionNetwork`.

        Raises:
            TlsError, AuthenticationFailed: one side does not accept the other.
        """
        settings = self._settings()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                transport = await self._network.connect(
                    host, port, timeout_ms, replace(options, client_tls=client_tls(settings))
                )
                session = await self._first_session(transport, host, port)
        except (TlsError, AuthenticationFailed) as error:
            self._report(host, port, str(error))
            raise
        self._problems.pop((host, port), None)
        return transport, session

    def _settings(self) -> PeerSettings:
        settings = self._find()
        assert settings is not None, "the security protocol of a listener does not change"
        return settings

    def _report(self, host: str, port: int, problem: str) -> None:
        """Log a problem once, because each attempt to connect has the same one."""
        if self._problems.get((host, port)) != problem:
            self._problems[host, port] = problem
            log.warning("cannot connect to the node at %s:%d: %s", host, port, problem)

    async def _first_session(self, transport: Transport, host: str, port: int) -> Session | None:
        if self._settings().mechanism is None:
            return None
        try:
            return await self._authenticate(host, port, partial(_ask, transport))
        except BaseException:
            transport.close()
            raise

    async def _authenticate(self, host: str, port: int, ask: Ask) -> Session | None:
        lifetime_ms = await self._sasl.authenticate(self._settings(), host, ask)
        if not lifetime_ms:
            return None
        chance = int.from_bytes(self._random_bytes(4), "big") / _CHANCES
        now_ms = asyncio.get_running_loop().time() * 1000
        renew_at_ms = now_ms + lifetime_ms * (SESSION_USED + SESSION_JITTER * chance)
        return Session(int(renew_at_ms), partial(self._renew, host, port))

    async def _renew(self, host: str, port: int, ask: Ask) -> Session | None:
        try:
            return await self._authenticate(host, port, ask)
        except AuthenticationFailed as error:
            self._report(host, port, str(error))
            raise


def client_tls(settings: PeerSettings) -> ClientTls | None:
    """Return what TLS needs for connections to other nodes; None without TLS."""
    tls = settings.tls
    if tls is None:
        return None
    key, trust = tls.key, tls.trust
    return ClientTls(
        trust_file=None if trust is None else trust.file or None,
        trust_text="" if trust is None else trust.text.value,
        trust_password="" if trust is None else trust.password.value,
        trust_type=PEM if trust is None else trust.type,
        key_file=None if key is None else key.file or None,
        key_text="" if key is None else key.text.value,
        key_password="" if key is None else key.password.value,
        inner_key_password="" if key is None else key.key_password.value,
        key_type=PEM if key is None else key.type,
        verifies_host=tls.verifies_host,
        versions=tls.versions,
        ciphers=tls.ciphers,
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


async def _ask(transport: Transport, request: PlainRequest) -> bytes:
    """Send a request; see `Ask`.

    Raises:
        AuthenticationFailed: the other node has closed the connection, or does not answer as a node.
        OSError: the connection has failed.
    """
    key, version, parts = request
    data = b"".join(parts)
    head = _head.pack(_head.size - _length.size + len(data), key, version, 0)
    return (await _exchange(transport, head + data))[_CORRELATION_ID_BYTES:]


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
