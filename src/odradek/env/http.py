"""Fetches documents by URL: a small client of HTTP, and files.

It blocks, so that servers call it on a thread of an `Executor`. Sizes and times are bounded.
Redirects are not followed, and proxies are not used.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from odradek.env.tls_files import ClientTls

if TYPE_CHECKING:
    from http.client import HTTPConnection

PIECE_BYTES = 16 * 1024


class FetchError(Exception):
    """A document could not be fetched. The message has no secrets."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one fetch."""

    connect_ms: int = 10_000
    read_ms: int = 10_000
    """For all of the response."""
    bytes_max: int = 512 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """What is fetched. With a body it is a POST, otherwise a GET."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    tls: ClientTls = field(default_factory=ClientTls)
    """What the client trusts, for https."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Response:
    """The status of HTTP, and the document."""

    status: int
    body: bytes = field(repr=False)


def path_of(url: str) -> str | None:
    """Return the path of a URL with the scheme `file`; None for other URLs."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else None


def read_limited(path: str, bytes_max: int) -> bytes:
    """Return the contents of a file.

    Raises:
        FetchError: the file cannot be read, or is too long.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise FetchError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > bytes_max:
        raise FetchError(f"{path} has more than {bytes_max} bytes")
    return data


def fetch(request: Request) -> Response:
    """Send a request over HTTP or HTTPS, and return the response.

    Raises:
        FetchError: there is no response, or it is too long.
    """
    from http.client import HTTPException

    parts = urlsplit(request.url)
    where = f"{parts.scheme}://{parts.netloc}{parts.path}"
    target = parts.path or "/"
    if parts.query:
        target += f"?{parts.query}"
    connection = None
    try:
        connection = _connection(request)
        connection.connect()
        connection.sock.settimeout(request.limits.read_ms / 1000)
        method = "GET" if request.body is None else "POST"
        headers = {"Accept": "application/json", "Connection": "close", **request.headers}
        connection.request(method, target, request.body, headers)
        return _read(connection, request.limits)
    except (OSError, HTTPException, ValueError) as error:
        raise FetchError(f"{where} cannot be fetched: {_reason(error)}") from error
    finally:
        if connection is not None:
            connection.close()


def _connection(request: Request) -> HTTPConnection:
    from http.client import HTTPConnection, HTTPSConnection

    parts = urlsplit(request.url)
    timeout_s = request.limits.connect_ms / 1000
    assert parts.hostname is not None
    if parts.scheme == "http":
        return HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    from odradek.env.tls_context import make_client_context

    context = make_client_context(request.tls)
    return HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)


def _read(connection: HTTPConnection, limits: Limits) -> Response:
    deadline_s = time.monotonic() + limits.read_ms / 1000
    response = connection.getresponse()
    body = bytearray()
    while piece := response.read1(PIECE_BYTES):
        body += piece
        if len(body) > limits.bytes_max:
            raise ValueError(f"the response has more than {limits.bytes_max} bytes")
        if time.monotonic() > deadline_s:
            raise TimeoutError("the response takes too long")
    if response.length:
        raise ValueError("the response is incomplete")
    return Response(response.status, bytes(body))


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return reason or str(error) or type(error).__name__
