"""Prometheus' way to the node's numbers: HTTP, in a thread of its own.

The port is opened when the server is made, so that a node does not start without it. What serves
it, `prometheus_client`, is imported in the thread: it costs the start of the node nothing, and
whoever asks meanwhile waits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from odradek.network.server import listening_socket
from odradek.node.metrics import families

if TYPE_CHECKING:
    from odradek.node.node import Node

_BACKLOG = 16


class MetricsServer:
    """Serves `/metrics` from `start` to `close`."""

    def __init__(self, node: Node, host: str, port: int) -> None:
        """Open the port; 0 takes a free one.

        Raises:
            ListenError: it cannot be opened.
        """
        self._node = node
        self._socket = listening_socket("metrics", host, port, _BACKLOG, "--metrics-port")
        self.port: int = self._socket.getsockname()[1]
        self._server: Any = None
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Answer, in a thread."""
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        from http.server import ThreadingHTTPServer

        from prometheus_client import CollectorRegistry, MetricsHandler, ProcessCollector

        registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=registry)
        registry.register(_Collector(self._node))
        address = self._socket.getsockname()
        handler = MetricsHandler.factory(registry)
        server = ThreadingHTTPServer(address, handler, bind_and_activate=False)
        server.socket.close()
        server.socket = self._socket
        self._server = server
        self._ready.set()
        server.serve_forever()

    def close(self) -> None:
        """Close the port. Blocks until the thread has ended."""
        if self._thread is not None:
            self._ready.wait()
            self._server.shutdown()
            self._thread.join()
        self._socket.close()


class _Collector:
    """What `prometheus_client` asks on a scrape."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Any]:
        from prometheus_client import Metric

        for family in families(self._node):
            metric = Metric(family.name, family.documentation, family.kind)
            ending = "_total" if family.kind == "counter" else ""
            for sample in family.samples:
                metric.add_sample(
                    family.name + ending + sample.suffix, dict(sample.labels), sample.value
                )
            yield metric
