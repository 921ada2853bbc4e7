"""The TLS settings of one listener.

As in Kafka, a setting may have the prefix `listener.name.<listener>.` in lower case. Keys and
certificates are in PEM files (KIP-651), PKCS#12 or JKS files: `ssl.keystore.location` is a file with the
private key, its certificate and the certificates of its issuers, `ssl.truststore.location` a file
with the trusted certificates. Or they are PEM text in `ssl.keystore.key`,
`ssl.keystore.certificate.chain` and `ssl.truststore.certificates`. The settings that fit together are
those of Apache Kafka's DefaultSslEngineFactory, but a PEM key needs no password. `ssl.client.auth`
without the prefix does not apply to SASL_SSL (KIP-684). This node's connections to other nodes use the settings of the
listener that they connect to, except `ssl.client.auth`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from odradek.config import cipher_suites
from odradek.config.checks import ConfigurationError, Secret, Value
from odradek.config.layers import BrokerLayers
from odradek.config.principal_mapping import PrincipalMapping
from odradek.config.registry import broker_settings

CLIENT_AUTH = "ssl.client.auth"
TLS_PROTOCOLS = frozenset(("SSL", "SASL_SSL"))
PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
PER_LISTENER = frozenset(
    (
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        cipher_suites.SETTING,
        CLIENT_AUTH,
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
)
"""The settings that have an effect with the prefix of a listener."""


class Store(NamedTuple):
    """A file or a text with a key or with certificates."""

    file: str
    """ssl.keystore.location or ssl.truststore.location; empty if `text` is set"""
    type: str
    """PEM, PKCS12 or JKS. JKS is the default; as in Java, JKS and PKCS12 both open both formats"""
    password: Secret
    """ssl.key.password, or for PKCS12 and JKS ssl.keystore.password or ssl.truststore.password"""
    text: Secret = Secret("")
    """ssl.keystore.key and ssl.keystore.certificate.chain, or ssl.truststore.certificates"""
    key_password: Secret = Secret("")
    """ssl.key.password, for PKCS12 and JKS"""


class TlsSettings(NamedTuple):
    """The TLS settings of one listener."""

    key: Store
    trust: Store | None
    client_auth: str
    """ssl.client.auth"""
    versions: tuple[str, ...]
    """ssl.enabled.protocols"""
    ciphers: str
    """ssl.cipher.suites for TLS 1.2, with OpenSSL's names"""
    principals: PrincipalMapping
    """ssl.principal.mapping.rules"""
    allows_other_subject: bool
    """ssl.allow.dn.changes"""
    allows_fewer_names: bool
    """ssl.allow.san.changes"""


class PeerTlsSettings(NamedTuple):
    """The TLS settings of connections to other nodes."""

    key: Store | None
    """This node's certificate as a client"""
    trust: Store | None
    """None means the authorities of the system"""
    verifies_host: bool
    """ssl.endpoint.identification.algorithm"""
    versions: tuple[str, ...]
    """ssl.enabled.protocols"""
    ciphers: str = ""
    """ssl.cipher.suites for TLS 1.2, with OpenSSL's names"""


def tls_settings(layers: BrokerLayers, listener: str, protocol: str) -> TlsSettings:
    """Return the settings of a listener with the security protocol SSL or SASL_SSL.

    Raises:
        ConfigurationError: the key is missing, or a setting is not supported.
    """
    prefix = f"listener.name.{listener.lower()}."
    find = partial(_find, layers, prefix)
    key, trust = _key_store(find, listener), _trust_store(find, listener)
    if key is None:
        raise ConfigurationError(
            f"listener {listener} needs a key: set {prefix}ssl.keystore.location to a PEM or "
            f"PKCS#12 file, and {prefix}ssl.keystore.type to PEM or PKCS12"
        )
    choice = _choice(find, listener)
    client_auth = "none"
    if protocol == "SSL" or f"{prefix}{CLIENT_AUTH}" in layers.effective:
        client_auth = str(find(CLIENT_AUTH))
    if client_auth != "none" and trust is None:
        raise ConfigurationError(
            f"listener {listener}: ssl.client.auth is {client_auth}, so that "
            "ssl.truststore.location must have the issuers of the clients' certificates"
        )
    return TlsSettings(
        key,
        trust,
        client_auth,
        choice.versions,
        choice.ciphers,
        PrincipalMapping(str(find("ssl.principal.mapping.rules"))),
        bool(find("ssl.allow.dn.changes")),
        bool(find("ssl.allow.san.changes")),
    )


def peer_tls_settings(layers: BrokerLayers, listener: str) -> PeerTlsSettings:
    """Return the settings of connections to this listener of other nodes.

    Raises:
        ConfigurationError: a setting is not supported.
    """
    find = partial(_find, layers, f"listener.name.{listener.lower()}.")
    name = "ssl.endpoint.identification.algorithm"
    algorithm = find(name) or ""
    if algorithm not in ("", "https"):
        raise ConfigurationError(f"listener {listener}: {name} must be https or empty")
    choice = _choice(find, listener)
    return PeerTlsSettings(
        _key_store(find, listener),
        _trust_store(find, listener),
        bool(algorithm),
        choice.versions,
        choice.ciphers,
    )


Find = Callable[[str], Value]
"""Returns the value of a setting for one listener."""


def _find(layers: BrokerLayers, prefix: str, name: str) -> Value:
    setting = broker_settings()[name]
    text = layers.effective.get(prefix + name, layers.effective.get(name))
    return setting.default if text is None else setting.parse(text)


def _key_store(find: Find, listener: str) -> Store | None:
    """Return the key store of a listener; None if it has none."""
    key, chain = _secret(find, "ssl.keystore.key"), _secret(find, "ssl.keystore.certificate.chain")
    if bool(key) != bool(chain):
        there, missing = ("key", "certificate.chain") if key else ("certificate.chain", "key")
        raise ConfigurationError(
            f"listener {listener}: ssl.keystore.{there} is set, but ssl.keystore.{missing} is not"
        )
    text = Secret(f"{key.value}\n{chain.value}") if key else key
    return _store(find, listener, "keystore", "ssl.keystore.key", text, "ssl.key.password")


def _trust_store(find: Find, listener: str) -> Store | None:
    """Return the trust store of a listener; None if it has none."""
    name = "ssl.truststore.certificates"
    return _store(find, listener, "truststore", name, _secret(find, name), None)


def _store(
    find: Find, listener: str, kind: str, text_name: str, text: Secret, of_pem: str | None
) -> Store | None:
    """Return a store. `text_name` is the setting of `text`. `of_pem` is the setting with the password of PEM.

    Raises:
        ConfigurationError: the type is not supported, or settings do not fit together.
    """
    # As in Java, upper and lower case are equal.
    file, store_type = find(f"ssl.{kind}.location"), str(find(f"ssl.{kind}.type")).upper()
    if not (file or text):
        return None
    password = _secret(find, f"ssl.{kind}.password")
    if text and (file or store_type != PEM):
        default = " (the default)" if store_type == JKS else ""
        why = f"ssl.{kind}.type is {store_type}{default}"
        if file:
            why = f"ssl.{kind}.location is also set"
        raise ConfigurationError(
            f"listener {listener}: {text_name} needs ssl.{kind}.type=PEM without ssl.{kind}.location, "
            f"but {why}"
        )
    if store_type in (PKCS12, JKS):
        inner = _secret(find, of_pem) if of_pem else Secret("")
        return Store(str(file), store_type, password, key_password=inner)
    if store_type != PEM:
        raise ConfigurationError(
            f"listener {listener}: ssl.{kind}.type is {store_type}, but only PEM, PKCS12 and "
            "JKS are supported. Set it to the type of the file"
        )
    if password:
        hint = f"; the password of its key is {of_pem}" if of_pem else ""
        raise ConfigurationError(f"listener {listener}: PEM has no ssl.{kind}.password{hint}")
    return Store(str(file or ""), store_type, _secret(find, of_pem) if of_pem else Secret(""), text)


def _choice(find: Find, listener: str) -> cipher_suites.Choice:
    versions, suites = find(cipher_suites.PROTOCOLS), find(cipher_suites.SETTING)
    assert isinstance(versions, tuple)
    assert isinstance(suites, tuple)
    try:
        return cipher_suites.choose(suites, versions)
    except ValueError as error:
        raise ConfigurationError(f"listener {listener}: {error}") from error


def _secret(find: Find, name: str) -> Secret:
    password = find(name)
    return password if isinstance(password, Secret) else Secret("")
