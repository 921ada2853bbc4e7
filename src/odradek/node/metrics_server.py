"""Serves the node's metrics to Prometheus over HTTP.

Each connection serves one request. Connections are served on the event loop. A thread of the
executor collects and formats the metrics, because this work would block the event loop for too long
if there are thousands of partitions. The thread pauses often, so that the event loop gets the
interpreter's lock soon. The thread also imports the modules that write the metrics, and `prometheus_client`, which
reads the metrics of the process, so that these imports do not delay the start of the node.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable, Container
from urllib.parse import parse_qs, urlsplit

from odradek.env.executor import Executor, Pool, call, let_others_run
from odradek.env.network import Network, Transport
from odradek.network.listeners import bind, listen
from odradek.network.output import Output
from odradek.telemetry.registry import Registry

log = logging.getLogger("odradek.node")

REQUEST_BYTES_MAX = 16 * 1024
CONNECTIONS_MAX = 16
"""Maximum number of open connections. More connections wait until one is closed."""
TIMEOUT_SECONDS = 30.0
"""Maximum duration of a connection."""
_BACKLOG = 16
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OPTION = "--metrics-port"
_END = b"\r\n\r\n"


Write = Callable[[Container[str] | None], str]
"""Returns the text of the samples with these names; None means all samples."""


def writer(registry: Registry, spelling: str) -> Write:
    """Return a function that writes the metrics of a registry, and those of the process.

    `spelling` is a value of `odradek.metrics.names`.
    """

    def write(names: Container[str] | None) -> str:
        from odradek.telemetry.exposition import Exposition
        from odradek.telemetry.names import SPELLINGS

        text = Exposition(registry, SPELLINGS[spelling], names, let_others_run).text()
        return text if names is not None else text + _of_process()

    return write


def _of_process() -> str:
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    return generate_latest(registry).decode()


class MetricsServer:
    """Serves the metrics, at every path, from `start` to `close`.

    Use it only on the event loop's thread.
    """

    def __init__(self, network: Network, host: str, port: int) -> None:
        """Bind the port. Port 0 chooses a free port.

        Raises:
            ListenError: the port cannot be bound.
        """
        self._endpoint = bind(network, "metrics", host, port, _OPTION)
        self.port = self._endpoint.port
        self._executor: Executor | None = None
        self._write: Write | None = None
        self._exchanges: set[_Exchange] = set()

    def start(self, executor: Executor, write: Write) -> None:
        """Begin to serve requests. A thread of `executor` calls `write` for each request.

        Raises:
            ListenError: another process listens on the port.
        """
        self._executor = executor
        self._write = write
        listen(self._endpoint, _BACKLOG, _OPTION)
        self._endpoint.listener.watch(self._accept)

    def _accept(self) -> None:
        while len(self._exchanges) < CONNECTIONS_MAX:
            try:
                transport = self._endpoint.listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                log.warning("cannot accept a connection for metrics: %s", error.strerror)
                break
            self._exchanges.add(_Exchange(transport, self))
        # The next connection is accepted when an open connection is closed.
        self._endpoint.listener.unwatch()
        if not self._exchanges:
            asyncio.get_running_loop().call_later(1.0, self._accept_again)

    def _accept_again(self) -> None:
        if self._executor is not None:
            self._endpoint.listener.watch(self._accept)

    def forget(self, exchange: _Exchange) -> None:
        """Remove a closed connection, and accept the next one."""
        self._exchanges.discard(exchange)
        self._accept_again()

    def scrape(self, target: str, headers: dict[str, str]) -> asyncio.Future[bytes]:
        """Return a future of the response to a request."""
        assert self._executor is not None
        return call(self._executor, lambda: self._scrape(target, headers), Pool.GENERAL)

    def _scrape(self, target: str, headers: dict[str, str]) -> bytes:
        assert self._write is not None
        names = parse_qs(urlsplit(target).query).get("name[]")
        body = self._write(names).encode()
        more = [f"Content-Type: {CONTENT_TYPE}"]
        if "gzip" in headers.get("accept-encoding", ""):
            body = gzip.compress(body, 1)
            more.append("Content-Encoding: gzip")
        return _response("200 OK", body, *more)

    def close(self) -> None:
        """Close the port and all connections."""
        self._executor = None
        self._endpoint.listener.close()
        for exchange in list(self._exchanges):
            exchange.close()


class _Exchange:
    """One connection: receives a request, sends the response and closes the connection."""

    def __init__(self, transport: Transport, server: MetricsServer) -> None:
        self._transport = transport
        self._server = server
        self._request = bytearray()
        self._buffer = bytearray(REQUEST_BYTES_MAX)
        self._output = Output(transport)
        self._closed = False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(TIMEOUT_SECONDS, self.close)
        transport.watch_readable(self._on_readable)

    def _on_readable(self) -> None:
        try:
            count = self._transport.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self.close()
            return
        self._request += self._buffer[:count]
        if _END in self._request:
            self._transport.unwatch_readable()
            self._serve()
        elif len(self._request) > REQUEST_BYTES_MAX:
            self._transport.unwatch_readable()
            self._respond(_response("431 Request Header Fields Too Large", b""))

    def _serve(self) -> None:
        head, *lines = self._request.partition(_END)[0].decode("latin-1").split("\r\n")
        words = head.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._respond(_response("400 Bad Request", b""))
        elif words[0] != "GET":
            self._respond(_response("405 Method Not Allowed", b"", "Allow: GET"))
        else:
            pairs = (line.partition(":") for line in lines)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            self._server.scrape(words[1], headers).add_done_callback(self._on_scraped)

    def _on_scraped(self, done: asyncio.Future[bytes]) -> None:
        if done.cancelled():
            self.close()
        elif (error := done.exception()) is not None:
            log.error("metrics could not be collected", exc_info=error)
            self._respond(_response("500 Internal Server Error", b""))
        else:
            self._respond(done.result())

    def _respond(self, response: bytes) -> None:
        if self._closed:
            return
        self._output.queue([response], len(response))
        self._transport.watch_writable(self._on_writable)

    def _on_writable(self) -> None:
        try:
            if not self._output.send():
                return
        except OSError as error:
            log.debug("a client disconnected before it received its metrics: %s", error)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._closed:
            return
        self._closed = True
        self._timer.cancel()
        self._transport.close()
        self._server.forget(self)


def _response(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body
