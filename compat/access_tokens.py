"""The issuer of access tokens for the listener with SASL of the broker under test.

The keys of the issuer are in a file that the broker reads. Clients get their tokens from files, or
from a function.
"""

from __future__ import annotations

import base64
import functools
import json
import time
from pathlib import Path

from joserfc import jws
from joserfc.jwk import ECKey

from compat.lab.toolchain import CACHE

AUDIENCE = "kafka"
ISSUER = "https://issuer.example.com"
USER = "alice"
INVALID = '{"status":"invalid_token"}'
"""What a broker says about each token that it does not accept."""

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
KEYS = CACHE / "compat-issuer" / "keys.json"
LIFETIME_SECONDS = 600
CLOCK_SKEW_SECONDS = 30
WRONG = ("expired", "not-yet", "audience", "issuer", "forged", "unknown-key", "unsigned")
"""The kinds of tokens that are not accepted."""


@functools.cache
def _key(key_id: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": key_id})


@functools.cache
def _forger() -> ECKey:
    return ECKey.generate_key("P-256", {"kid": "known"})


def settings() -> dict[str, str]:
    """Return the settings of the listener, after writing the file of the keys."""
    KEYS.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"keys": [_key("known").as_dict(private=False)]})
    KEYS.write_text(text, encoding="utf-8")
    return {
        "sasl.oauthbearer.jwks.endpoint.url": KEYS.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.clock.skew.seconds": str(CLOCK_SKEW_SECONDS),
        "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
        "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": (
            f"{_PACKAGE}OAuthBearerValidatorCallbackHandler"
        ),
    }


def token(kind: str = "right", lifetime_seconds: int = LIFETIME_SECONDS) -> str:
    """Return a new token: a right one, or one of the kinds in `WRONG`."""
    if kind == "unsigned":
        return unsigned("right")
    payload = _claims(kind, lifetime_seconds)
    key = {"forged": _forger(), "unknown-key": _key("unknown")}.get(kind, _key("known"))
    header = {"alg": "ES256", "kid": str(key.kid)}
    return jws.serialize_compact(header, payload, key, ["ES256"])


def unsigned(kind: str) -> str:
    """Return a new token without a signature, whose claims are those of a kind."""
    parts = (
        base64.urlsafe_b64encode(each.encode())
        for each in ('{"alg":"none"}', _claims(kind, LIFETIME_SECONDS))
    )
    return "".join(f"{each.decode().rstrip('=')}." for each in parts)


def _claims(kind: str, lifetime_seconds: int) -> str:
    now = int(time.time())
    begin = now - CLOCK_SKEW_SECONDS
    claims: dict[str, object] = {
        "iss": "https://other.example.com" if kind == "issuer" else ISSUER,
        "aud": ["somebody"] if kind == "audience" else [AUDIENCE, "other"],
        "sub": USER,
        "iat": begin - LIFETIME_SECONDS,
        "nbf": now + 100 if kind == "not-yet" else begin,
        "exp": begin - 1 if kind == "expired" else now + lifetime_seconds,
    }
    return json.dumps(claims)


def java_properties(file: Path) -> str:
    """Return the settings of a client in Java that reads its token from a file."""
    return (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.login.callback.handler.class={_PACKAGE}OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}\n"
        f"sasl.jaas.config={MODULE} required;\n"
    )


def allowed_urls(*urls: str) -> str:
    """Return the option of a JVM whose clients or brokers may use these URLs."""
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(urls)}"
