"""Where a schema registry is, and how its clients log in.

The names of settings are those of Confluent's serializers: `schema.registry.url`,
`basic.auth.user.info` (`user:password`), `bearer.auth.token`, and the settings of TLS with the prefix
`schema.registry.ssl.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from odradek.env.tls_files import ClientTls

URL, USER_INFO, TOKEN = "schema.registry.url", "basic.auth.user.info", "bearer.auth.token"
TIMEOUT_MS = "schema.registry.timeout.ms"
TLS_PREFIX = "schema.registry."
DEFAULT_TIMEOUT_MS = 30_000


class OptionNames(NamedTuple):
    """The names of the user's settings, for advice."""

    url: str = URL
    login: str = f"{USER_INFO} or {TOKEN}"
    no_registration: str = "auto.register.schemas=false"


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where a schema registry is, and how long a request to it may take with all its retries."""

    urls: tuple[str, ...]
    user: str
    password: str
    timeout_ms: int
    token: str = ""
    tls: ClientTls | None = None
    """What is trusted; None for the certificates of the system, or of `SSL_CERT_FILE`."""
    names: OptionNames = field(default=OptionNames(), compare=False)

    def __repr__(self) -> str:
        """Return a text without the password."""
        return f"RegistrySettings(urls={self.urls!r}, user={self.user!r})"


def parse_urls(text: str, name: str, login: str) -> tuple[str, ...]:
    """Return the addresses of a registry. `name` and `login` are the settings in messages.

    Raises:
        ValueError: an address is malformed, or has a password.
    """
    urls = tuple(each.strip().rstrip("/") for each in text.split(",") if each.strip())
    for url in urls or ("",):
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{name} must be like http://host:8081")
        if parts.username is not None or parts.password is not None:
            raise ValueError(f"{name} has a user or a password: give {login}")
    return urls


def parse_registry(given: RegistrySettings | str | Mapping[str, object]) -> RegistrySettings:
    """Return the settings of a registry: `given` is its URL, or a mapping of settings.

    Raises:
        ValueError: a setting is unknown, missing or malformed.
    """
    if isinstance(given, RegistrySettings):
        return given
    settings = {URL: given} if isinstance(given, str) else dict(given)
    known = {URL, USER_INFO, TOKEN, TIMEOUT_MS}
    tls = {name: str(value) for name, value in settings.items() if _is_tls(name)}
    unknown = sorted(settings.keys() - known - tls.keys())
    if unknown:
        raise ValueError(f"there is no setting {unknown[0]} of a schema registry")
    urls = parse_urls(str(settings.get(URL, "")), URL, USER_INFO)
    user, colon, password = str(settings.get(USER_INFO, "")).partition(":")
    if user and not colon:
        raise ValueError(f"{USER_INFO} must be like user:password")
    token = str(settings.get(TOKEN, ""))
    if token and user:
        raise ValueError(f"set either {USER_INFO} or {TOKEN}, not both")
    timeout_ms = int(str(settings.get(TIMEOUT_MS, DEFAULT_TIMEOUT_MS)))
    return RegistrySettings(urls, user, password, timeout_ms, token, _tls(tls) if tls else None)


def _is_tls(name: str) -> bool:
    return name.startswith(f"{TLS_PREFIX}ssl.")


def _tls(settings: Mapping[str, str]) -> ClientTls | None:
    from odradek.client.security import parse_security  # rarely needed

    plain = {name.removeprefix(TLS_PREFIX): value for name, value in settings.items()}
    return parse_security({**plain, "security.protocol": "SSL"}).tls
