"""How a client, or a node as a client of other nodes, gets access tokens for OAUTHBEARER.

The settings have Kafka's names. With sasl.oauthbearer.token.endpoint.url, tokens come from an OAuth
server by the client credentials grant (KIP-768), or from a file with a token. Without it, tokens
without signatures are made from the `unsecuredLogin...` options of OAuthBearerLoginModule, for
development. The id and the secret of the client, and the scope, may also be options of the login
module, as before KIP-1139.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.config.checks import ConfigurationError, Secret, Value
from odradek.config.jaas import OAUTH_LOGIN_MODULE, LoginModule
from odradek.config.oauth import Trust, check_url, trust_of

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  the name of a setting
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105  a name
LOGIN_HANDLER = "sasl.login.callback.handler.class"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
LOGIN_HANDLERS = (
    f"{_PACKAGE}OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
)
RETRIEVERS = tuple(
    f"{_PACKAGE}{each}JwtRetriever" for each in ("Default", "File", "ClientCredentials")
)
ASSERTIONS = ("sasl.oauthbearer.assertion.claim.iss", "sasl.oauthbearer.assertion.file")
"""Settings that ask for assertions instead of a secret of the client."""
SETTINGS = (
    TOKEN_URL,
    CLIENT_ID,
    CLIENT_SECRET,
    LOGIN_HANDLER,
    _RETRIEVER,
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.sub.claim.name",
)
"""The settings of a login, without those of assertions."""
_UNSECURED = "unsecuredLogin"
_RESERVED = ("exp", "iat")

Find = Callable[[str], Value]
"""Returns the value of a setting."""


class TokenEndpoint(NamedTuple):
    """Where tokens come from: an OAuth server, or a file."""

    url: str
    client_id: str = ""
    client_secret: Secret = Secret("")
    scope: str = ""
    is_encoded: bool = False
    """Whether the id and the secret are URL-encoded (sasl.oauthbearer.header.urlencode)."""
    trust: Trust = Trust()
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000


class UnsecuredLogin(NamedTuple):
    """A token without a signature that the client makes. The claims are pairs of name and value."""

    claims: tuple[tuple[str, str | float | tuple[str, ...]], ...]
    lifetime_s: int


class Refresh(NamedTuple):
    """When a token is replaced (KIP-255)."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300


class LoginSettings(NamedTuple):
    """How tokens are made or fetched, and how they are used."""

    source: TokenEndpoint | UnsecuredLogin
    extensions: tuple[tuple[str, str], ...] = ()
    """The SASL extensions (KIP-342)."""
    user_claim: str = "sub"
    refresh: Refresh = Refresh()


def login_settings(find: Find, module: LoginModule | None, *, is_encoded: bool) -> LoginSettings:
    """Return how a client logs in. `module` is the value of sasl.jaas.config.

    Raises:
        ConfigurationError: a setting is missing, malformed or not supported.
    """
    if module is not None and module.name != OAUTH_LOGIN_MODULE:
        raise ConfigurationError(
            f"sasl.jaas.config: the login module of OAUTHBEARER is {OAUTH_LOGIN_MODULE}"
        )
    options = {} if module is None else module.options
    for name, allowed in ((LOGIN_HANDLER, LOGIN_HANDLERS), (_RETRIEVER, RETRIEVERS)):
        if find(name) not in (None, "", *allowed):
            raise ConfigurationError(
                f"{name} is {find(name)}, but classes in Java are not loaded; it may be "
                f"{' or '.join(allowed)}"
            )
    refresh = Refresh(
        _number(find, "sasl.login.refresh.window.factor"),
        _number(find, "sasl.login.refresh.window.jitter"),
        int(_number(find, "sasl.login.refresh.min.period.seconds")),
        int(_number(find, "sasl.login.refresh.buffer.seconds")),
    )
    url = str(find(TOKEN_URL) or "")
    if url:
        source: TokenEndpoint | UnsecuredLogin = _endpoint(
            find, check_url(TOKEN_URL, url), options, is_encoded
        )
        prefix, claim = "extension_", str(find("sasl.oauthbearer.sub.claim.name") or "sub")
    else:
        source = _unsecured(options)
        prefix, claim = (
            f"{_UNSECURED}Extension_",
            options.get(f"{_UNSECURED}PrincipalClaimName", "sub"),
        )
    extensions = tuple(
        (name.removeprefix(prefix), value)
        for name, value in options.items()
        if name.startswith(prefix)
    )
    return LoginSettings(source, extensions, claim.strip(), refresh)


def _endpoint(find: Find, url: str, options: Mapping[str, str], is_encoded: bool) -> TokenEndpoint:
    if url.lower().startswith("file:"):
        return TokenEndpoint(url)
    secret = find(CLIENT_SECRET)
    secret = secret.value if isinstance(secret, Secret) else str(secret or "")
    secret = secret.strip() or options.get("clientSecret", "").strip()
    client_id = str(find(CLIENT_ID) or "").strip() or options.get("clientId", "").strip()
    if not client_id or not secret:
        raise ConfigurationError(f"{TOKEN_URL} needs {CLIENT_SECRET if client_id else CLIENT_ID}")
    defaults = TokenEndpoint(url)
    return TokenEndpoint(
        url,
        client_id,
        Secret(secret),
        str(find("sasl.oauthbearer.scope") or "").strip() or options.get("scope", "").strip(),
        is_encoded,
        trust_of(options),
        int(_number(find, "sasl.login.connect.timeout.ms", defaults.connect_timeout_ms)),
        int(_number(find, "sasl.login.read.timeout.ms", defaults.read_timeout_ms)),
        int(_number(find, "sasl.login.retry.backoff.ms")),
        int(_number(find, "sasl.login.retry.backoff.max.ms")),
    )


def _number(find: Find, name: str, default: int = 0) -> float:
    """Return a number of the settings; the default if it is zero or missing."""
    value = find(name)
    assert value is None or isinstance(value, (int, float))
    if (value or 0) < 0:
        raise ConfigurationError.of(name, value, "must be at least 0")
    return value or default


def _unsecured(options: Mapping[str, str]) -> UnsecuredLogin:
    """Return the token that the options of the login module describe."""
    kinds: dict[str, Callable[[str], str | float | tuple[str, ...]]] = {
        f"{_UNSECURED}StringClaim_": str,
        f"{_UNSECURED}NumberClaim_": float,
        f"{_UNSECURED}ListClaim_": lambda text: tuple(text[1:].split(text[0])) if text else (),
    }
    claims = []
    try:
        for option, text in options.items():
            for prefix, parse in kinds.items():
                name = option.removeprefix(prefix)
                if name not in ("", option):
                    claims.append((name, parse(text)))
        lifetime_s = int(options.get(f"{_UNSECURED}LifetimeSeconds", "3600"))
    except ValueError as error:
        raise ConfigurationError(f"sasl.jaas.config: {error}") from error
    if any(name in _RESERVED for name, _ in claims):
        raise ConfigurationError("sasl.jaas.config: the claims exp and iat cannot be set")
    claim = options.get(f"{_UNSECURED}PrincipalClaimName", "sub").strip()
    if not dict(claims).get(claim):
        raise ConfigurationError(
            f"OAUTHBEARER needs a token: set {TOKEN_URL} to the URL of an OAuth server, or to a "
            f'file with a token (file:///...). For development, {_UNSECURED}StringClaim_{claim}="USER" '
            f"in sasl.jaas.config makes a token without a signature"
        )
    return UnsecuredLogin(tuple(claims), lifetime_s)
