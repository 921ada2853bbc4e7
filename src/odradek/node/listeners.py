"""The listeners of a node.

A start first binds all addresses. The controller listeners accept connections before the metadata
is loaded. The broker listeners accept connections at the end, when the node is ready.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from odradek.broker.access.listener_keys import server_tls
from odradek.config.broker_config import BrokerConfig
from odradek.config.listeners import Listener
from odradek.core.metadata.registrations import Endpoint as AdvertisedEndpoint
from odradek.core.quota.connections import ConnectionRates
from odradek.core.quota.meters import Windows
from odradek.env.certificate_names import CertificateNames
from odradek.env.network import (
    HostUnknown,
    Network,
    SocketListener,
    StreamOptions,
    host_address,
)
from odradek.env.tls_files import ServerTls, TlsError
from odradek.handlers.dispatch import Dispatcher
from odradek.handlers.gate_context import GateContext
from odradek.network.listeners import Endpoint, bind
from odradek.network.server import Limits, MakeGate, Server

log = logging.getLogger("odradek.node")


def limits_of(config: BrokerConfig) -> Limits:
    """Return the limits of a server's connections."""
    return Limits(
        request_bytes_max=config.socket_request_max_bytes,
        connections_max=config.max_connections,
        connections_by_listener=config.max_connections_by_listener,
        protected_listener=_protected_listener(config),
        connections_per_ip_max=config.max_connections_per_ip,
        connections_per_ip_overrides=_by_address(config.max_connections_per_ip_overrides),
        idle_ms=config.connections_max_idle_ms,
        listen_backlog=config.socket_listen_backlog_size,
    )


def _by_address(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Replace host names in max.connections.per.ip.overrides by addresses."""
    found = {}
    for host, count in counts.items():
        try:
            found[host_address(host)] = count
        except HostUnknown as error:
            log.error("max.connections.per.ip.overrides: %s: %s", host, error.strerror)
    return found


def _protected_listener(config: BrokerConfig) -> str:
    """Return the name of the listener between brokers if there are others for clients."""
    return config.inter_broker_listener_name if len(config.broker_listeners) > 1 else ""


def _tls(config: BrokerConfig, listener: str) -> ServerTls | None:
    """Return the key and the certificates of a listener; None if it does not use TLS."""
    settings = config.tls_by_listener.get(listener)
    return None if settings is None else server_tls(settings)


def gates_of(context: GateContext, dispatcher: Dispatcher) -> dict[str, MakeGate]:
    """Return the functions for the listeners whose clients are authenticated.

    `dispatcher` serves the requests of authenticated clients.
    """
    config = context.config
    gates: dict[str, MakeGate] = {}
    if config.tls_by_listener:
        from odradek.handlers.tls_gate import TlsGate

        for name in config.tls_by_listener:
            gates[name] = partial(TlsGate, context, name)
    if config.sasl_by_listener:
        from odradek.handlers.sasl_gate import SaslGate

        for name in config.sasl_by_listener:  # the principal is the user of SASL, also with TLS
            gates[name] = partial(SaslGate, context, name, dispatcher.entries)
    return gates


class BoundListeners:
    """The bound addresses of a node's broker listeners and controller listeners."""

    def __init__(self, config: BrokerConfig, network: Network) -> None:
        """Bind all addresses.

        Raises:
            ListenError: an address cannot be bound. All addresses are closed again.
        """
        self.broker: list[Endpoint] = []
        self.controller: list[Endpoint] = []
        self.own_host = _own_host(config, network)
        """The host of listeners on all addresses, as other nodes are told."""
        options = StreamOptions(
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
        )
        try:
            for listeners, endpoints in (
                (config.broker_listeners, self.broker),
                (config.controller_listeners, self.controller),
            ):
                for each in listeners:
                    endpoints.append(
                        bind(
                            network,
                            each.name,
                            each.host,
                            each.port,
                            options=replace(
                                options,
                                tls=_tls(config, each.name),
                                one_protocol=each.shares_port(config.listeners),
                            ),
                        )
                    )
        except BaseException:
            self.release()
            raise

    def advertised(self, config: BrokerConfig) -> Sequence[AdvertisedEndpoint]:
        """Return the addresses of the broker that other nodes are told."""
        return self._told(config, config.advertised_listeners, self.broker)

    def advertised_controllers(self, config: BrokerConfig) -> Sequence[AdvertisedEndpoint]:
        """Return the addresses of the controller that other nodes are told."""
        return self._told(config, config.advertised_controller_listeners, self.controller)

    def _told(
        self, config: BrokerConfig, advertised: Iterable[Listener], endpoints: Iterable[Endpoint]
    ) -> Sequence[AdvertisedEndpoint]:
        bound: Mapping[str, int] = {endpoint.name: endpoint.port for endpoint in endpoints}
        return [
            AdvertisedEndpoint(
                each.name,
                self.own_host if config.needs_own_host(each) else each.host,
                each.port or bound[each.name],
                each.security_protocol_id,
            )
            for each in advertised
        ]

    def release(self) -> None:
        """Close the addresses."""
        for endpoint in (*self.broker, *self.controller):
            endpoint.listener.close()


def _own_host(config: BrokerConfig, network: Network) -> str:
    """Return the name of this machine if anybody is told. Looking it up could take seconds."""
    advertised = (*config.advertised_listeners, *config.advertised_controller_listeners)
    is_told = any(
        config.needs_own_host(each)
        and (not config.is_alone or each.name in config.advertised_by_setting)
        for each in advertised
    )
    return network.own_host() if is_told else "localhost"


class Service:
    """A server and its dispatcher, for the listeners of one role."""

    def __init__(
        self,
        config: BrokerConfig,
        dispatcher: Dispatcher,
        endpoints: Iterable[Endpoint],
        gate_context: GateContext,
    ) -> None:
        """`gate_context` is what the gates of listeners use whose clients must authenticate. This
        service passes changed settings to it."""
        self._config = config
        self._gate_context = gate_context
        self.dispatcher = dispatcher
        endpoints = list(endpoints)
        self.rates = ConnectionRates(
            Windows(config.quota_window_num, config.quota_window_size_seconds * 1000),
            [each.name for each in endpoints],
            _protected_listener(config),
        )
        self._use_rates(config)
        limits = limits_of(config)
        gates = gates_of(gate_context, dispatcher)
        self.server = Server(dispatcher, limits, endpoints, gates, self.rates)

    def _use_rates(self, config: BrokerConfig) -> None:
        self.rates.use_limits(
            config.max_connection_creation_rate, config.max_connection_creation_rate_by_listener
        )

    def start(self) -> None:
        """Accept connections.

        Raises:
            ListenError: another process listens on one of the addresses.
        """
        self.server.start()

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed settings. Keys and certificates are read again."""
        self.server.use_limits(limits_of(config))
        self._use_rates(config)
        self._gate_context.update_config(config)
        for endpoint in self.server.endpoints:
            tls, listener = _tls(config, endpoint.name), endpoint.listener
            if tls is None or not isinstance(listener, SocketListener):
                continue
            try:
                listener.use_tls(tls)
            except TlsError as error:
                log.error("listener %s keeps its key and certificates: %s", endpoint.name, error)

    def certificate_names(self, listener: str) -> CertificateNames | None:
        """Return the names in the certificate that a listener uses; None if they are not known."""
        for endpoint in self.server.endpoints:
            if endpoint.name == listener and isinstance(endpoint.listener, SocketListener):
                return endpoint.listener.certificate_names
        return None

    async def drain(self) -> None:
        """Stop accepting connections, and wait until the responses to open requests are sent."""
        await self.server.drain(self._config.odradek_shutdown_timeout_ms)
        await self.dispatcher.drain()
