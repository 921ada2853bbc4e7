"""Finds the principal of a connection in the client's certificate (listeners with SSL).

A new connection has a `TlsGate` as its owner (see `odradek.network.connection`). When the first
request arrives, the TLS handshake is complete. The gate maps the name of the certificate to a
principal (ssl.principal.mapping.rules). A client without a certificate is `User:ANONYMOUS`. If no
rule matches, the connection is closed. Otherwise the gate passes the connection to the server.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.env.network import Transport
from odradek.env.tls import TlsTransport
from odradek.handlers.certificates import subject_name
from odradek.handlers.gate_context import GateContext
from odradek.model.principal import NoUser
from odradek.network.authentications import Outcome
from odradek.network.connection import Connection
from odradek.network.receive_buffers import ReceiveBuffers
from odradek.network.server import Server
from odradek.network.turns import Turns

log = logging.getLogger("odradek.request")


def count_refused_handshake(server: Server, connection: Connection, transport: Transport) -> None:
    """Count and log a failed authentication if the connection ends because of its TLS handshake."""
    if isinstance(transport, TlsTransport) and transport.handshake_refusal is not None:
        peer = connection.peer
        log.info(
            "failed authentication of %s:%d on %s: the TLS handshake failed: %s",
            peer.host,
            peer.port,
            peer.listener,
            transport.handshake_refusal,
        )
        server.authentications.count(connection.peer.listener, Outcome.FAILED)


class TlsGate:
    """The owner of one connection; see the module and `odradek.network.connection.Owner`."""

    __slots__ = ("_is_known", "_principals", "_server", "_transport")

    def __init__(
        self, context: GateContext, listener: str, server: Server, transport: Transport
    ) -> None:
        self._principals = context.config.tls_by_listener[listener].principals
        self._server = server
        self._transport = transport
        self._is_known = False

    @property
    def request_bytes_max(self) -> int:
        """See `Owner`."""
        return self._server.request_bytes_max

    @property
    def dispatch(self) -> Callable[[Connection, memoryview], None]:
        """The gate, which finds the principal."""
        return self._receive_first

    @property
    def buffers(self) -> ReceiveBuffers:
        """See `Owner`."""
        return self._server.buffers

    @property
    def turns(self) -> Turns:
        """See `Owner`."""
        return self._server.turns

    @property
    def knows_client(self) -> bool:
        """See `Owner`."""
        return self._is_known

    def refuse_size(self, connection: Connection, size: int) -> None:
        """See `Owner`."""
        self._server.refuse_size(connection, size)

    def forget(self, connection: Connection) -> None:
        """See `Owner`."""
        count_refused_handshake(self._server, connection, self._transport)
        self._server.forget(connection)

    def _receive_first(self, connection: Connection, frame: memoryview) -> None:
        """Find the principal, and dispatch a request that arrived together with the first one."""
        if not self._is_known:
            transport = self._transport
            certificate = (
                transport.peer_certificate if isinstance(transport, TlsTransport) else None
            )
            if certificate is not None:
                try:
                    user = self._principals.user_of(subject_name(certificate))
                except NoUser as reason:
                    peer = connection.peer
                    log.info(
                        "failed authentication of %s:%d on %s: %s",
                        peer.host,
                        peer.port,
                        peer.listener,
                        reason,
                    )
                    self._server.authentications.count(peer.listener, Outcome.FAILED)
                    connection.refuse()
                    return
                connection.peer.authenticate(f"User:{user}")
            self._is_known = True
            connection.pass_to(self._server)
            self._server.authentications.count(connection.peer.listener, Outcome.SUCCESSFUL)
        self._server.dispatch(connection, frame)
