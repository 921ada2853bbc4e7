"""Fetches access tokens from an OAuth server or a file; blocks (see `odradek.env.http`)."""

from __future__ import annotations

import base64
import time
from urllib.parse import quote_plus

from odradek.config.oauth_login import TokenEndpoint
from odradek.env.http import FetchError, Limits, Request, Response, fetch, path_of, read_limited
from odradek.env.tls_files import ClientTls

TOKEN_BYTES_MAX = 512 * 1024
SUCCESS_MAX = 299
FINAL_STATUSES = frozenset((*range(300, 408), *range(409, 418), 501, 505))
"""The statuses of HTTP after which a request is not repeated."""


def read_token(url: str) -> str | None:
    """Return the contents of a file; None if the URL is not that of a file.

    Raises:
        FetchError: the file cannot be read.
    """
    path = path_of(url)
    if path is None:
        return None
    return read_limited(path, TOKEN_BYTES_MAX).decode("utf-8", "replace").strip()


def request_token(endpoint: TokenEndpoint) -> Response:
    """Request a token from an OAuth server by the client credentials grant (RFC 6749, 4.4).

    The request is repeated for up to sasl.login.retry.backoff.max.ms.

    Raises:
        FetchError: the server does not answer.
    """
    end_s = time.monotonic() + endpoint.retry_backoff_max_ms / 1000
    pause_s = max(1, endpoint.retry_backoff_ms) / 1000
    request = _request(endpoint)
    while True:
        try:
            response = fetch(request)
        except FetchError:
            if time.monotonic() + pause_s >= end_s:
                raise
        else:
            is_final = response.status <= SUCCESS_MAX or response.status in FINAL_STATUSES
            if is_final or time.monotonic() + pause_s >= end_s:
                return response
        time.sleep(pause_s)
        pause_s *= 2


def _request(endpoint: TokenEndpoint) -> Request:
    client_id, secret, trust = endpoint.client_id, endpoint.client_secret.value, endpoint.trust
    if endpoint.is_encoded:
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    password = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    headers = {
        "Authorization": f"Basic {password}",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    body = "grant_type=client_credentials"
    if endpoint.scope:
        body += f"&scope={quote_plus(endpoint.scope)}"
    tls = ClientTls(
        trust_file=trust.file or None,
        trust_type=trust.type,
        trust_password=trust.password.value,
    )
    limits = Limits(endpoint.connect_timeout_ms, endpoint.read_timeout_ms)
    return Request(endpoint.url, headers, body.encode(), tls, limits)
