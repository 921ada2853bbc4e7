"""Access tokens on the client's side: how a token is made and read, and when it is replaced.

A token is replaced before it expires (KIP-255): after sasl.login.refresh.window.factor of its
lifetime, plus a random part of it of up to sasl.login.refresh.window.jitter; not within
sasl.login.refresh.min.period.seconds; and at the latest sasl.login.refresh.buffer.seconds before the
end. If the token does not live long enough for the last two, they have no effect.

The rules for tokens are those of Kafka's ClientJwtValidator: the claims `exp` and `sub` are needed.
The signature is not verified, because the client need not know the issuer's keys.
"""

from __future__ import annotations

import base64
import json
from typing import NamedTuple

from odradek.config.oauth import OAUTHBEARER
from odradek.config.oauth_login import LoginSettings, Refresh, UnsecuredLogin
from odradek.core.sasl.client import Credential
from odradek.core.sasl.tokens import InvalidToken, number_claim, parse_token, text_claim

SHOWN_MAX = 200
STATUS_ERROR_MIN = 300
"""Redirects are errors, too."""


class LoginFailed(Exception):
    """There is no token. The message has no secrets."""


class HeldToken(NamedTuple):
    """A token of the client. The times are milliseconds since 1970."""

    credential: Credential
    replace_ms: int
    expires_ms: int


def held_token(settings: LoginSettings, token: str, now_ms: int, chance: float) -> HeldToken:
    """Read a token that has been made or fetched. `chance` is a random number from 0 to 1.

    Raises:
        LoginFailed: it is no token.
    """
    token = token.strip()
    try:
        claims = parse_token(token).claims()
        user, expires_s = text_claim(claims, settings.user_claim), number_claim(claims, "exp")
    except InvalidToken as problem:
        raise LoginFailed(f"the access token cannot be used: {problem.reason}") from problem
    if not user or not user.strip() or expires_s is None:
        raise LoginFailed(
            f"the access token cannot be used: it has no claim "
            f"{'exp' if user else settings.user_claim}"
        )
    expires_ms = int(expires_s * 1000)
    credential = Credential(OAUTHBEARER, user.strip(), token, extensions=settings.extensions)
    replace_ms = _replace_ms(settings.refresh, now_ms, expires_ms, chance)
    return HeldToken(credential, replace_ms, expires_ms)


def _replace_ms(refresh: Refresh, now_ms: int, expires_ms: int, chance: float) -> int:
    left_ms = max(0, expires_ms - now_ms)
    part = min(1.0, refresh.window_factor + refresh.window_jitter * chance)
    wanted_ms = now_ms + int(left_ms * part)
    earliest_ms = now_ms + refresh.min_period_s * 1000
    latest_ms = expires_ms - refresh.buffer_s * 1000
    if earliest_ms > latest_ms:
        return wanted_ms
    return min(max(wanted_ms, earliest_ms), latest_ms)


def unsecured_token(login: UnsecuredLogin, now_ms: int) -> str:
    """Make a token without a signature."""
    claims: dict[str, object] = {
        "exp": now_ms / 1000 + login.lifetime_s,
        "iat": now_ms / 1000,
        **dict(login.claims),
    }
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def token_in(status: int, response: bytes) -> str:
    """Return the token in the response of an OAuth server.

    Raises:
        LoginFailed: there is none.
    """
    try:
        document = json.loads(response)
    except (ValueError, RecursionError):
        document = None
    found = document if isinstance(document, dict) else {}
    if status >= STATUS_ERROR_MIN:
        words = [found.get(name) for name in ("error", "error_description")]
        said = " - ".join(each for each in words if isinstance(each, str))[:SHOWN_MAX]
        shown = f": {said!r}" if said else ""
        raise LoginFailed(f"the OAuth server answers with the status {status}{shown}")
    for name in ("access_token", "id_token"):
        token = found.get(name)
        if isinstance(token, str) and token.strip():
            return token
    raise LoginFailed("the response of the OAuth server has no token")
