"""How a node connects to other nodes: the TLS and SASL settings of the listener it connects to.

As in Kafka, `listener.name.<listener>.<mechanism>.sasl.jaas.config` of the inter-broker listener
and of the controller listener has the `username` and the `password` of the node itself. For PLAIN
it also has the users that may connect. With OAUTHBEARER the node gets access tokens as a client does
(`oauth_login`). With GSSAPI it gets tickets with a key table or from a cache (`kerberos`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from odradek.config.checks import ConfigurationError, Secret
from odradek.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE, parse_login_module
from odradek.config.kerberos import (
    GSSAPI,
    SERVICE_NAME,
    KerberosLogin,
    check_library,
    kerberos_login,
    kerberos_module,
)
from odradek.config.layers import BrokerLayers
from odradek.config.oauth import OAUTHBEARER
from odradek.config.oauth_login import LoginSettings, login_settings
from odradek.config.sasl import MECHANISMS, PLAIN, SASL_PROTOCOLS, find_for
from odradek.config.tls import TLS_PROTOCOLS, PeerTlsSettings, peer_tls_settings

CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"


class PeerSettings(NamedTuple):
    """The settings of a node's connections to one listener of other nodes."""

    listener: str
    tls: PeerTlsSettings | None
    mechanism: str | None
    """The SASL mechanism; None without SASL."""
    user: str
    password: Secret
    is_token: bool = False
    """Whether the user and the password are those of a delegation token."""
    login: LoginSettings | None = None
    """How the node gets access tokens; None without OAUTHBEARER."""
    kerberos: KerberosLogin | None = None
    """How the node gets tickets; None without GSSAPI."""


def peer_settings(
    layers: BrokerLayers, listener: str, protocols: Mapping[str, str], mechanism_name: str
) -> PeerSettings | None:
    """Return the settings of connections to a listener of other nodes; None without TLS and SASL.

    `protocols` has the security protocols by listener, and `mechanism_name` is the name of the
    setting with the mechanism.

    Raises:
        ConfigurationError: a setting is missing or not supported.
    """
    protocol = protocols.get(listener)
    if protocol is None and mechanism_name == CONTROLLER_MECHANISM:
        raise ConfigurationError.of(
            "listener.security.protocol.map",
            listener,
            f"no security protocol is defined for {listener}",
        )
    if protocol in (None, "PLAINTEXT"):
        return None
    tls = peer_tls_settings(layers, listener) if protocol in TLS_PROTOCOLS else None
    if protocol not in SASL_PROTOCOLS:
        return PeerSettings(listener, tls, None, "", Secret(""))
    mechanism = str(layers.value(mechanism_name))
    if mechanism not in MECHANISMS:
        raise ConfigurationError.of(
            mechanism_name, mechanism, f"it must be {' or '.join(MECHANISMS)}"
        )
    chosen = layers.shown(mechanism_name)
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    if mechanism == OAUTHBEARER:
        return PeerSettings(
            listener, tls, mechanism, "", Secret(""), login=_login(layers, listener, name)
        )
    if mechanism == GSSAPI:
        return PeerSettings(
            listener,
            tls,
            mechanism,
            "",
            Secret(""),
            kerberos=_kerberos(layers, listener, name, chosen),
        )
    expected = PLAIN_LOGIN_MODULE if mechanism == PLAIN else SCRAM_LOGIN_MODULE
    text = layers.effective.get(name)
    if not text:
        raise ConfigurationError(
            f"nodes connect to listener {listener} with SASL ({chosen}): set {name} to "
            f'{expected} required username="NAME" password="PASSWORD";'
        )
    module = parse_login_module(name, text)
    user, password = module.options.get("username"), module.options.get("password")
    if module.name != expected or not user or not password:
        raise ConfigurationError(
            f"{name}: {expected} with the options username and password is expected, because this "
            "node connects to other nodes with them"
        )
    is_token = module.is_token and mechanism != PLAIN
    return PeerSettings(listener, tls, mechanism, user, Secret(password), is_token)


def _login(layers: BrokerLayers, listener: str, jaas: str) -> LoginSettings:
    text = layers.effective.get(jaas)
    module = parse_login_module(jaas, text) if text else None
    try:
        return login_settings(
            partial(find_for, OAUTHBEARER, layers, listener), module, is_encoded=False
        )
    except ConfigurationError as error:
        raise ConfigurationError(
            f"nodes connect to listener {listener} with OAUTHBEARER: {error}"
        ) from error


def _kerberos(layers: BrokerLayers, listener: str, jaas: str, chosen: str) -> KerberosLogin:
    text = layers.effective.get(jaas)
    if not text:
        raise ConfigurationError(
            f"nodes connect to listener {listener} with GSSAPI ({chosen}): set {jaas} to the login "
            "module of Kerberos, or set another mechanism for these connections"
        )
    service = str(find_for(GSSAPI, layers, listener, SERVICE_NAME) or "")
    login = kerberos_login(jaas, kerberos_module(jaas, text), service)
    check_library(f"connections to listener {listener}")
    return login
