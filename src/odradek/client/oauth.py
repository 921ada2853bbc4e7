"""The access tokens of clients with OAUTHBEARER.

All connections with the same settings share a token. It is fetched when the first one
authenticates, and replaced when a connection authenticates and the token is due
(`odradek.core.sasl.login`). A connection authenticates again before its session ends, which is at
the latest when the token expires. A file is read each time.
"""

from __future__ import annotations

import secrets
import threading
import time

from odradek.client.errors import SecurityError
from odradek.config.oauth_login import LoginSettings, UnsecuredLogin
from odradek.core.sasl.client import Credential
from odradek.core.sasl.login import (
    HeldToken,
    LoginFailed,
    held_token,
    token_in,
    unsecured_token,
)
from odradek.env.access_token import read_token, request_token
from odradek.env.http import FetchError

LOGINS_KEPT = 100
_STEPS = 1 << 20

_lock = threading.Lock()
_held: dict[LoginSettings, HeldToken] = {}


def credential_of(settings: LoginSettings) -> Credential:
    """Return a token that has not expired. This may wait for the OAuth server.

    Raises:
        SecurityError: there is no token.
    """
    try:
        with _lock:
            return _newest(settings).credential
    except (FetchError, LoginFailed) as error:
        raise SecurityError(
            f"there is no access token: {error}",
            "Check sasl.oauthbearer.token.endpoint.url, and the id and the secret of the client.",
        ) from error


def _newest(settings: LoginSettings) -> HeldToken:
    now_ms = time.time_ns() // 1_000_000
    held = _held.get(settings)
    if held is not None and now_ms < held.replace_ms:
        return held
    chance = secrets.randbelow(_STEPS) / _STEPS
    source = settings.source
    if isinstance(source, UnsecuredLogin):
        return held_token(settings, unsecured_token(source, now_ms), now_ms, chance)
    in_file = read_token(source.url)
    if in_file is not None:
        return held_token(settings, in_file, now_ms, chance)
    try:
        response = request_token(source)
        made = held_token(settings, token_in(response.status, response.body), now_ms, chance)
    except (FetchError, LoginFailed):
        if held is None or held.expires_ms <= now_ms:
            raise
        return held  # the next authentication tries again
    if len(_held) >= LOGINS_KEPT:
        _held.clear()
    _held[settings] = made
    return made
