"""Fetches documents by URL: a small client of HTTP, and files.

It blocks, so that servers call it on a thread of an `Executor`. Sizes and times are bounded.
Redirects are not followed, and proxies are not used.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from odradek.env.tls_files import ClientTls

if TYPE_CHECKING:
    from http.client import HTTPConnection

_PORTS = {"http": 80, "https": 443}
_LATE = "the response takes too long"


class FetchError(Exception):
    """A document could not be fetched. The message has no secrets."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one fetch."""

    connect_ms: int = 10_000
    read_ms: int = 10_000
    """For all of the response, and the handshake of TLS."""
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
    from http.client import HTTPConnection, HTTPException

    parts = urlsplit(request.url)
    target = parts.path or "/"
    if parts.query:
        target += f"?{parts.query}"
    method = "GET" if request.body is None else "POST"
    headers = {"Accept": "application/json", "Connection": "close", **request.headers}
    assert parts.hostname is not None
    # This class adds the port to the header Host only if it is not 80.
    connection = HTTPConnection(parts.hostname, parts.port or _PORTS[parts.scheme])
    if parts.port is None:
        headers["Host"] = parts.netloc
    try:
        with _connected(request, parts.hostname, connection.port) as made:
            connection.sock = made
            connection.request(method, target, request.body, headers)
            return _read(connection, request.limits.bytes_max)
    except (OSError, HTTPException, ValueError) as error:
        where = f"{parts.scheme}://{parts.netloc}{parts.path}"
        raise FetchError(f"{where} cannot be fetched: {_reason(error)}") from error
    finally:
        connection.close()


@contextmanager
def _connected(request: Request, host: str, port: int) -> Iterator[socket.socket]:
    """Yield a connected socket. It is shut down when the time for the response is over.

    A timeout of the socket would begin anew with each byte.
    """
    from http.client import HTTPException

    limits = request.limits
    used = socket.create_connection((host, port), limits.connect_ms / 1000)
    is_late = threading.Event()

    def shut_down() -> None:
        is_late.set()
        try:
            socket.socket.shutdown(used, socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended by itself

    timer = threading.Timer(limits.read_ms / 1000, shut_down)
    timer.daemon = True
    try:
        used.settimeout(limits.read_ms / 1000)
        if urlsplit(request.url).scheme == "https":
            from odradek.env.tls_context import make_client_context

            context = make_client_context(request.tls)
            used = context.wrap_socket(used, server_hostname=host, do_handshake_on_connect=False)
            timer.start()
            used.do_handshake()
        else:
            timer.start()
        yield used
        if is_late.is_set():  # the response ended because of this, and may be incomplete
            raise TimeoutError(_LATE)
    except (OSError, ValueError, HTTPException) as error:
        if is_late.is_set():
            raise TimeoutError(_LATE) from error
        raise
    finally:
        timer.cancel()
        used.close()


def _read(connection: HTTPConnection, bytes_max: int) -> Response:
    response = connection.getresponse()
    body = response.read(bytes_max + 1)
    if len(body) > bytes_max:
        raise ValueError(f"the response has more than {bytes_max} bytes")
    if response.length:
        raise ValueError("the response is incomplete")
    return Response(response.status, body)


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return reason or str(error) or type(error).__name__
