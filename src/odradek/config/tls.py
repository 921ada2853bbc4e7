"""The TLS settings of one listener.

As in Kafka, a setting may have the prefix `listener.name.<listener>.` in lower case. Keys and
certificates are PEM files (KIP-651): `ssl.keystore.location` is a file with the private key, its
certificate and the certificates of its issuers, `ssl.truststore.location` a file with the trusted
certificates.
"""

from __future__ import annotations

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


def tls_settings(layers: BrokerLayers, listener: str) -> TlsSettings:
    """Return the settings of a listener that uses TLS.

    Raises:
        ConfigurationError: the key is missing, or a setting is not supported.
    """
    prefix = f"listener.name.{listener.lower()}."

    def find(name: str) -> Value:
        setting = broker_settings()[name]
        text = layers.effective.get(prefix + name, layers.effective.get(name))
        return setting.default if text is None else setting.parse(text)

    key_file, trust_file = find("ssl.keystore.location"), find("ssl.truststore.location")
    if not isinstance(key_file, str) or not key_file:
        raise ConfigurationError(
            f"listener {listener} needs a key: set {prefix}ssl.keystore.location to a PEM file, "
            f"and {prefix}ssl.keystore.type to PEM"
        )
    for name, file in (("ssl.keystore.type", key_file), ("ssl.truststore.type", trust_file)):
        if file and find(name) != PEM:
            raise ConfigurationError(
                f"listener {listener}: {name} is {find(name)}, but only PEM is supported"
            )
    client_auth, versions = find("ssl.client.auth"), find("ssl.enabled.protocols")
    assert isinstance(client_auth, str)
    assert isinstance(versions, tuple)
    if not versions or not set(versions) <= set(VERSIONS):
        raise ConfigurationError(
            f"listener {listener}: ssl.enabled.protocols may have {' and '.join(VERSIONS)}"
        )
    if client_auth != "none" and not trust_file:
        raise ConfigurationError(
            f"listener {listener}: ssl.client.auth is {client_auth}, so that "
            "ssl.truststore.location must have the issuers of the clients' certificates"
        )
    password = find("ssl.key.password")
    return TlsSettings(
        key_file,
        password if isinstance(password, Secret) else Secret(""),
        str(trust_file) if trust_file else None,
        client_auth,
        versions,
        PrincipalMapping(str(find("ssl.principal.mapping.rules"))),
    )
