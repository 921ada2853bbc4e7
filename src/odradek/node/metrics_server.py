"""Prometheus' way to the node's numbers: HTTP, in a thread of its own.

The port is reserved when the server is made, so that a node does not start without it. What
serves it, `prometheus_client`, is imported in the thread: it costs the start of the node nothing,
and whoever asks meanwhile waits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from odradek.network.server import bind, listen
from odradek.node.metrics import families

if TYPE_CHECKING:
    from odradek.node.node import Node

_BACKLOG = 16
_OPTION = "--metrics-port"


class MetricsServer:
    """Serves `/metrics` from `start` to `close`."""

    def __init__(self, node: Node, host: str, port: int) -> None:
        """Reserve the port; 0 takes a free one.

        Raises:
            ListenError: it cannot be had.
        """
        self._node = node
        self._endpoint = bind("metrics", host, port, _OPTION)
        self.port = self._endpoint.port
        self._server: Any = None
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Answer, in a thread.

        Raises:
            ListenError: another process was first at the port.
        """
        listen(self._endpoint, _BACKLOG, _OPTION)
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        from http.server import ThreadingHTTPServer

        from prometheus_client import CollectorRegistry, MetricsHandler, ProcessCollector

        registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=registry)
        registry.register(_Collector(self._node))
        address = self._endpoint.socket.getsockname()
        handler = MetricsHandler.factory(registry)
        server = ThreadingHTTPServer(address, handler, bind_and_activate=False)
        server.socket.close()
        server.socket = self._endpoint.socket
        self._server = server
        self._ready.set()
        server.serve_forever()

    def close(self) -> None:
        """Close the port. Blocks until the thread has ended, if there is one."""
        if self._thread is not None:
            self._ready.wait()
            self._server.shutdown()
            self._thread.join()
        self._endpoint.socket.close()


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
