"""The settings of the mechanism OAUTHBEARER of one listener: how access tokens are validated.

As in Kafka, each setting may have the prefix `listener.name.<listener>.oauthbearer.` or
`listener.name.<listener>.`. The value with the longest prefix applies.

- With sasl.oauthbearer.jwks.endpoint.url, tokens must be signed by a key from this address, which
  may be a file.
- The audience and the issuer of these tokens must be set, or the settings say that they are not
  verified, as in Kafka 4.4. Otherwise tokens for other services would be accepted.
- Tokens without signatures are accepted only if this is asked for: with Kafka's class
  OAuthBearerUnsecuredValidatorCallbackHandler, or, without a class and without an address of keys,
  with an `unsecured...` option of OAuthBearerLoginModule. (Kafka accepts them whenever no class is
  set.)

Kafka needs the system property org.apache.kafka.sasl.oauthbearer.allowed.urls, because its clients
may get their settings from strangers. Here the addresses of keys come only from the configuration
file and the command line of the node, so that there is no such list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.config import extras
from odradek.config.checks import ConfigurationError, Secret, Value
from odradek.config.jaas import OAUTH_LOGIN_MODULE, parse_login_module

OAUTHBEARER = "OAUTHBEARER"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
CALLBACK_HANDLER = "sasl.server.callback.handler.class"
_JAAS = "sasl.jaas.config"
_JWT_VALIDATOR = "sasl.oauthbearer.jwt.validator.class"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
SIGNED_HANDLERS = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
)
UNSECURED_HANDLER = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
JWT_VALIDATORS = (f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator")
PER_LISTENER = frozenset(
    (
        CALLBACK_HANDLER,
        JWKS_URL,
        _JWT_VALIDATOR,
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
    )
)
"""The settings that have an effect with the prefix of a listener, and of the mechanism."""
SCHEMES = ("http", "https", "file")
_UNSECURED = "unsecured"

Find = Callable[[str], Value]
"""Returns the value of a setting for the mechanism of one listener."""


class Trust(NamedTuple):
    """What a node trusts when it fetches over HTTPS, from the options of the login module."""

    file: str = ""
    """ssl.truststore.location; empty: the authorities of the system"""
    type: str = "PEM"
    """ssl.truststore.type"""
    password: Secret = Secret("")
    """ssl.truststore.password"""


class KeyLocation(NamedTuple):
    """Where the keys of an issuer are, and how often they are fetched."""

    url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    trust: Trust


class SignedTokenSettings(NamedTuple):
    """How signed tokens are validated."""

    keys: KeyLocation
    audiences: frozenset[str]
    issuer: str | None
    scope_claim: str
    subject_claim: str
    clock_skew_seconds: int
    allows_any_audience: bool = False
    """Whether a token may have any audience, if `audiences` is empty."""


class UnsecuredTokenSettings(NamedTuple):
    """How tokens without signatures are validated."""

    principal_claim: str
    scope_claim: str
    required_scopes: tuple[str, ...]
    clock_skew_ms: int


TokenSettings = SignedTokenSettings | UnsecuredTokenSettings


def token_settings(find: Find, listener: str) -> TokenSettings:
    """Return how the tokens of a listener are validated.

    Raises:
        ConfigurationError: a setting is missing or not supported, or a package is missing.
    """
    options = _options(find, listener)
    handler, url = find(CALLBACK_HANDLER), find(JWKS_URL)
    asks = any(each.startswith(_UNSECURED) for each in options)
    if handler == UNSECURED_HANDLER or (handler is None and not url and asks):
        return _unsecured(options, listener)
    if handler is not None and handler not in SIGNED_HANDLERS:
        raise ConfigurationError(
            f"listener {listener}: {CALLBACK_HANDLER} is {handler}, but classes in Java are not "
            f"loaded; it may be {SIGNED_HANDLERS[0]} or {UNSECURED_HANDLER}"
        )
    if not url:
        raise ConfigurationError(
            f"OAUTHBEARER needs the keys of the issuer: set listener.name.{listener.lower()}."
            f"oauthbearer.{JWKS_URL} to a URL or a file (file:///...)"
        )
    if find(_JWT_VALIDATOR) not in JWT_VALIDATORS:
        raise ConfigurationError(
            f"listener {listener}: {_JWT_VALIDATOR} may only be {JWT_VALIDATORS[0]}, because "
            "classes in Java are not loaded"
        )
    if extras.missing(["joserfc", "cryptography"]):
        raise ConfigurationError(
            f"listener {listener}: OAUTHBEARER needs the packages joserfc and cryptography: "
            f"{extras.install(extras.SECURE)}"
        )
    return _signed(find, listener, check_url(JWKS_URL, str(url)), trust_of(options))


def _signed(find: Find, listener: str, url: str, trust: Trust) -> SignedTokenSettings:
    prefix = "sasl.oauthbearer."
    audiences = find(f"{prefix}expected.audience")
    issuer = str(find(f"{prefix}expected.issuer") or "").strip()
    assert isinstance(audiences, tuple)
    for name, expected in (("audience", audiences), ("issuer", issuer)):
        if not expected and find(f"{prefix}allow.unverified.{name}") is not True:
            raise ConfigurationError(
                f"listener {listener}: {prefix}expected.{name} is not set, so tokens of any "
                f"{name} would be accepted; set it, or {prefix}allow.unverified.{name}=true"
            )
    keys = KeyLocation(
        url,
        _number(find, f"{prefix}jwks.endpoint.refresh.ms", 1),
        _number(find, f"{prefix}jwks.endpoint.retry.backoff.ms", 0),
        _number(find, f"{prefix}jwks.endpoint.retry.backoff.max.ms", 0),
        trust,
    )
    return SignedTokenSettings(
        keys,
        frozenset(audiences),
        issuer or None,
        _name(find, f"{prefix}scope.claim.name"),
        _name(find, f"{prefix}sub.claim.name"),
        _number(find, f"{prefix}clock.skew.seconds", 0),
        allows_any_audience=not audiences,
    )


def _number(find: Find, name: str, low: int) -> int:
    value = find(name)
    assert isinstance(value, int)
    if value < low:
        raise ConfigurationError.of(name, value, f"must be at least {low}")
    return value


def _name(find: Find, setting: str) -> str:
    name = str(find(setting) or "").strip()
    if not name:
        raise ConfigurationError.of(setting, "", "the name of a claim is expected")
    return name


def _unsecured(options: dict[str, str], listener: str) -> UnsecuredTokenSettings:
    def option(name: str, default: str) -> str:
        return options.get(f"unsecuredValidator{name}", "").strip() or default

    skew = option("AllowableClockSkewMs", "0")
    if not skew.isdecimal():
        raise ConfigurationError(
            f"listener {listener}: unsecuredValidatorAllowableClockSkewMs must be a number"
        )
    return UnsecuredTokenSettings(
        option("PrincipalClaimName", "sub"),
        option("ScopeClaimName", "scope"),
        tuple(option("RequiredScope", "").split()),
        int(skew),
    )


def _options(find: Find, listener: str) -> dict[str, str]:
    """Return the options of the login module; none without one."""
    text = find(_JAAS)
    if not isinstance(text, Secret) or not text.value:
        return {}
    name = f"listener.name.{listener.lower()}.oauthbearer.{_JAAS}"
    module = parse_login_module(name, text.value)
    if module.name != OAUTH_LOGIN_MODULE:
        raise ConfigurationError(f"{name}: the login module must be {OAUTH_LOGIN_MODULE}")
    return module.options


def trust_of(options: Mapping[str, str]) -> Trust:
    """Return what the options of a login module trust.

    Raises:
        ConfigurationError: the type of the store is not supported.
    """
    kind = options.get("ssl.truststore.type", "PEM").upper()
    if kind not in ("PEM", "PKCS12", "JKS"):
        raise ConfigurationError(f"ssl.truststore.type is {kind}; it must be PEM, PKCS12 or JKS")
    return Trust(
        options.get("ssl.truststore.location", ""),
        kind,
        Secret(options.get("ssl.truststore.password", "")),
    )


def check_url(setting: str, url: str) -> str:
    """Return the value of a setting that is an address.

    Raises:
        ConfigurationError: it is malformed.
    """
    from urllib.parse import urlsplit  # takes some time

    url = url.strip()
    try:
        parts = urlsplit(url)
        is_complete = bool(parts.path if parts.scheme == "file" else parts.hostname)
        parts.port  # noqa: B018  raises ValueError
    except ValueError:
        is_complete = False
    else:
        if parts.username is not None or parts.password is not None:
            hidden = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            raise ConfigurationError.of(setting, hidden, "must have no user and no password")
        is_complete = is_complete and parts.scheme in SCHEMES
    if not is_complete:
        raise ConfigurationError.of(setting, url, f"must be a URL with {', '.join(SCHEMES)}")
    return url
