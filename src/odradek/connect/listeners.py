"""Where the REST API listens, with which keys, and what other workers are told (RestServer, SSLUtils)."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.client.security import SECURITY_SETTINGS, parse_security
from odradek.core.connect.errors import ConfigError
from odradek.env.tls_context import make_client_context, make_context
from odradek.env.tls_files import ClientAuth, ClientTls, ServerTls, TlsError
from odradek.rest import Listener

HTTP, HTTPS = "http", "https"
MAIN, ADMIN = "listeners.https.", "admin.listeners.https."
"""Prefixes of the settings of TLS. If one of them is given, those without prefix do not count."""
_PATTERN = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


@dataclass(frozen=True, slots=True)
class Address:
    """An address of `listeners`. An empty host means all addresses of the machine."""

    scheme: str
    host: str
    port: int


def parse_address(text: str) -> Address:
    """Return an address such as `https://worker-1:8443`.

    Raises:
        ConfigError: it is malformed.
    """
    found = _PATTERN.fullmatch(text.strip())
    if found is None:
        raise ConfigError("Listener doesn't have the right format (protocol://hostname:port).")
    scheme = found[1].lower()
    if scheme not in (HTTP, HTTPS):
        raise ConfigError(f'Listener protocol must be either "{HTTP}" or "{HTTPS}".')
    return Address(scheme, found[2], int(found[3]))


def listeners_of(
    addresses: Sequence[Address], given: Mapping[str, str], prefix: str
) -> list[Listener]:
    """Return what to listen at. `given` are the settings of the worker.

    Raises:
        ConfigError: a key or a certificate cannot be used.
    """
    context = None
    if any(each.scheme == HTTPS for each in addresses):
        context = server_context(given, prefix)
    return [
        Listener(
            each.host or "0.0.0.0",  # noqa: S104 - Kafka's default
            each.port,
            context if each.scheme == HTTPS else None,
        )
        for each in addresses
    ]


def advertised_scheme(addresses: Sequence[Address], wanted: str) -> str:
    """Return `http` or `https`: what other workers use. `wanted` is `rest.advertised.listener`.

    Raises:
        ConfigError: there is no such listener.
    """
    schemes = [each.scheme for each in addresses]
    if not wanted:
        return HTTP if HTTP in schemes else HTTPS
    if wanted.lower() not in schemes:
        raise ConfigError.of("rest.advertised.listener", wanted, f"it must be one of {schemes}")
    return wanted.lower()


def _tls(given: Mapping[str, str], prefix: str) -> tuple[ClientTls, dict[str, str]]:
    settings = {n.removeprefix(prefix): v for n, v in given.items() if n.startswith(prefix)}
    settings = settings or {n: v for n, v in given.items() if n.startswith("ssl.")}
    known = {n: v for n, v in settings.items() if n in SECURITY_SETTINGS}
    try:
        tls = parse_security({**known, "security.protocol": "SSL"}).tls
    except (ValueError, OSError) as error:
        raise ConfigError(str(error)) from None
    assert tls is not None, "SSL was asked for"
    return tls, settings


def server_context(given: Mapping[str, str], prefix: str) -> ssl.SSLContext:
    """Return the context of listeners with HTTPS.

    Raises:
        ConfigError: the key is missing, or a setting or file cannot be used.
    """
    tls, settings = _tls(given, prefix)
    if tls.key_file is None and not tls.key_text:
        raise ConfigError(f"a listener with https needs {prefix}ssl.keystore.location")
    auth = settings.get("ssl.client.auth", "none").strip()
    if auth not in [each.value for each in ClientAuth]:
        raise ConfigError.of("ssl.client.auth", auth, "it must be none, requested or required")
    if auth != "none" and tls.trust_file is None and not tls.trust_text:
        raise ConfigError(f"ssl.client.auth={auth} needs {prefix}ssl.truststore.location")
    try:
        return make_context(
            ServerTls(
                key_file=tls.key_file or "",
                key_password=tls.key_password,
                trust_file=tls.trust_file,
                client_auth=ClientAuth(auth),
                versions=tls.versions,
                ciphers=tls.ciphers,
                key_type=tls.key_type,
                key_text=tls.key_text,
                trust_type=tls.trust_type,
                trust_text=tls.trust_text,
                trust_password=tls.trust_password,
                inner_key_password=tls.inner_key_password,
            )
        )
    except TlsError as error:
        raise ConfigError(str(error)) from None


def client_context(given: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context of requests to other workers.

    Raises:
        ConfigError: a setting or file cannot be used.
    """
    tls, _ = _tls(given, MAIN)
    try:
        return make_client_context(tls)
    except TlsError as error:
        raise ConfigError(str(error)) from None
