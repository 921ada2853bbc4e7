"""The TLS settings of one listener.

As in Kafka, a setting may have the prefix `listener.name.<listener>.` in lower case. Keys and
certificates are PEM files (KIP-651): `ssl.keystore.location` is a file with the private key, its
certificate and the certificates of its issuers, `ssl.truststore.location` a file with the trusted
certificates. This node's connections to other nodes use the settings of the listener that they
connect to, except `ssl.client.auth`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from odradek.config.checks import ConfigurationError, Secret, Value
from odradek.config.layers import BrokerLayers
from odradek.config.principal_mapping import PrincipalMapping
from odradek.config.registry import broker_settings

TLS_PROTOCOLS = frozenset(("SSL", "SASL_SSL"))
PEM = "PEM"
VERSIONS = ("TLSv1.2", "TLSv1.3")
PER_LISTENER = frozenset(
    (
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.location",
        "ssl.truststore.type",
    )
)
"""The settings that have an effect with the prefix of a listener."""


class TlsSettings(NamedTuple):
    """The TLS settings of one listener."""

    key_file: str
    """ssl.keystore.location"""
    key_password: Secret
    """ssl.key.password"""
    trust_file: str | None
    """ssl.truststore.location"""
    client_auth: str
    """ssl.client.auth"""
    versions: tuple[str, ...]
    """ssl.enabled.protocols"""
    principals: PrincipalMapping
    """ssl.principal.mapping.rules"""


class PeerTlsSettings(NamedTuple):
    """The TLS settings of connections to other nodes."""

    key_file: str | None
    """ssl.keystore.location: this node's certificate as a client"""
    key_password: Secret
    """ssl.key.password"""
    trust_file: str | None
    """ssl.truststore.location; None means the authorities of the system"""
    verifies_host: bool
    """ssl.endpoint.identification.algorithm"""
    versions: tuple[str, ...]
    """ssl.enabled.protocols"""


def tls_settings(layers: BrokerLayers, listener: str) -> TlsSettings:
    """Return the settings of a listener that uses TLS.

    Raises:
        ConfigurationError: the key is missing, or a setting is not supported.
    """
    prefix = f"listener.name.{listener.lower()}."
    find = partial(_find, layers, prefix)
    key_file, trust_file = _files(find, listener)
    if key_file is None:
        raise ConfigurationError(
            f"listener {listener} needs a key: set {prefix}ssl.keystore.location to a PEM file, "
            f"and {prefix}ssl.keystore.type to PEM"
        )
    client_auth, versions = find("ssl.client.auth"), _versions(find, listener)
    assert isinstance(client_auth, str)
    if client_auth != "none" and not trust_file:
        raise ConfigurationError(
            f"listener {listener}: ssl.client.auth is {client_auth}, so that "
            "ssl.truststore.location must have the issuers of the clients' certificates"
        )
    return TlsSettings(
        key_file,
        _key_password(find),
        trust_file,
        client_auth,
        versions,
        PrincipalMapping(str(find("ssl.principal.mapping.rules"))),
    )


def peer_tls_settings(layers: BrokerLayers, listener: str) -> PeerTlsSettings:
    """Return the settings of connections to this listener of other nodes.

    Raises:
        ConfigurationError: a setting is not supported.
    """
    find = partial(_find, layers, f"listener.name.{listener.lower()}.")
    key_file, trust_file = _files(find, listener)
    name = "ssl.endpoint.identification.algorithm"
    algorithm = find(name) or ""
    if algorithm not in ("", "https"):
        raise ConfigurationError(f"listener {listener}: {name} must be https or empty")
    return PeerTlsSettings(
        key_file, _key_password(find), trust_file, bool(algorithm), _versions(find, listener)
    )


Find = Callable[[str], Value]
"""Returns the value of a setting for one listener."""


def _find(layers: BrokerLayers, prefix: str, name: str) -> Value:
    setting = broker_settings()[name]
    text = layers.effective.get(prefix + name, layers.effective.get(name))
    return setting.default if text is None else setting.parse(text)


def _files(find: Find, listener: str) -> tuple[str | None, str | None]:
    """Return ssl.keystore.location and ssl.truststore.location."""
    files = []
    for kind in ("keystore", "truststore"):
        file, type_name = find(f"ssl.{kind}.location"), f"ssl.{kind}.type"
        if file and find(type_name) != PEM:
            raise ConfigurationError(
                f"listener {listener}: {type_name} is {find(type_name)}, but only PEM is supported"
            )
        files.append(str(file) if file else None)
    return files[0], files[1]


def _versions(find: Find, listener: str) -> tuple[str, ...]:
    versions = find("ssl.enabled.protocols")
    assert isinstance(versions, tuple)
    if not versions or not set(versions) <= set(VERSIONS):
        raise ConfigurationError(
            f"listener {listener}: ssl.enabled.protocols may have {' and '.join(VERSIONS)}"
        )
    return versions


def _key_password(find: Find) -> Secret:
    password = find("ssl.key.password")
    return password if isinstance(password, Secret) else Secret("")
