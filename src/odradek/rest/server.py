"""An HTTP server in a thread. See the package."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

_START_SECONDS = 10.0
_BODY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A request. Names of headers are in lower case."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    base: str
    """The address of the server, as the client wrote it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Listener:
    """Where to listen. Port 0 is a free port; with `tls` the server speaks HTTPS."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None


Handle = Callable[[Request], Reply]
Finish = Callable[[Request, Reply], Reply]


class Server:
    """Serves requests until it is stopped."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        handle: Handle,
        *,
        users: Mapping[str, str] | None = None,
        realm: str = "odradek",
        unauthorized: bytes = b"",
        free: re.Pattern[str] | None = None,
        finish: Finish | None = None,
    ) -> None:
        """Listen. Requests are answered after `start`.

        With `users`, each request needs a name and a password (basic authentication); `unauthorized` is
        the body of the answer to others. Requests whose method and path match `free` need none.
        `finish` changes each answer; it gets the request without its body.

        Raises:
            OSError: the address is in use, or not one of this machine.
        """
        self._handle = handle
        self._users = dict(users or {})
        self._free = free
        self._finish = finish
        self._challenge = Reply(
            401, unauthorized, (("WWW-Authenticate", f'Basic realm="{realm}"'),)
        )
        app = Starlette(routes=[Route("/{path:path}", _Everything(self._serve))])
        self._doors: list[_Door] = []
        try:
            for each in listeners:
                self._doors.append(_Door(each, app))
        except BaseException:
            self.stop()
            raise

    @property
    def ports(self) -> list[int]:
        """The ports, in the order of the listeners."""
        return [each.port for each in self._doors]

    def start(self) -> None:
        """Answer requests."""
        for each in self._doors:
            each.start()

    def stop(self) -> None:
        """Let the requests end, at most for 5 s, and close."""
        for each in self._doors:
            each.ask_to_stop()
        for each in self._doors:
            each.close()

    async def _serve(self, request: StarletteRequest) -> Response:
        query: dict[str, list[str]] = {}
        for name, value in request.query_params.multi_items():
            query.setdefault(name, []).append(value)
        asked = Request(
            request.method,
            request.url.path,
            query,
            dict(request.headers),
            b"",
            str(request.base_url).rstrip("/"),
        )
        reply = await self._reply(request, asked)
        return _response(reply if self._finish is None else self._finish(asked, reply))

    async def _reply(self, request: StarletteRequest, asked: Request) -> Reply:
        header = request.headers.get("authorization", "")
        if self._users and not self._is_free(request) and not self._is_user(header):
            return self._challenge
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > _BODY_BYTES:
            return Reply(413)
        complete = replace(asked, body=await request.body())
        return await run_in_threadpool(self._handle, complete)

    def _is_free(self, request: StarletteRequest) -> bool:
        asked = f"{request.method} {request.url.path}"
        return self._free is not None and self._free.fullmatch(asked) is not None

    def _is_user(self, header: str) -> bool:
        scheme, _, encoded = header.partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        wanted = self._users.get(name)
        is_same = hmac.compare_digest((wanted or "").encode(), password.encode())
        return wanted is not None and is_same


class _Door:
    """A listener, whose requests are answered in a thread."""

    def __init__(self, listener: Listener, app: Starlette) -> None:
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        self._socket = socket.create_server(
            (listener.host, listener.port), family=family, backlog=128
        )
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=5,
        )
        config.load()
        config.ssl = listener.tls
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="rest-server", daemon=True)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started and self._thread.is_alive():
            if time.monotonic() > deadline:
                raise TimeoutError("the HTTP server did not start")
            time.sleep(0.005)

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def ask_to_stop(self) -> None:
        self._server.should_exit = True

    def close(self) -> None:
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()


class _Everything:
    """An endpoint of all methods."""

    def __init__(self, serve: Callable[[StarletteRequest], object]) -> None:
        self._serve = serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._serve(StarletteRequest(scope, receive))  # type: ignore[misc]
        await response(scope, receive, send)


def _response(reply: Reply) -> Response:
    made = Response(reply.body, reply.status)
    for name, value in reply.headers:
        made.headers.append(name, value)
    if reply.body and "content-type" not in made.headers:
        made.headers["Content-Type"] = "application/json"
    return made
