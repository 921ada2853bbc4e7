"""The class `NodeControl`: starts, ends and disturbs one node, from the thread of a test."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from odradek.config.broker_config import BrokerConfig
from odradek.model.errors import ErrorCode
from odradek.node.node import Node
from odradek.testing.faults import FOREVER, Fault, Faults
from odradek.testing.network import NodeNetwork
from odradek.testing.process import NodeProcess
from odradek.wire.api import BY_KEY, BY_NAME

HOST = "127.0.0.1"
TIMEOUT_S = 60.0

ResultT = TypeVar("ResultT")


class BrokerError(Exception):
    """A broker could not do what a test requested."""


class NodeControl:
    """A node with its faults. `Broker` is one, and `Cluster.nodes` has one for each node."""

    def __init__(
        self, name: str, network: NodeNetwork, port: int, cluster_id: str | None = None
    ) -> None:
        """`name` is used in messages. If `port` is 0, the first start chooses a free port."""
        self._name = name
        self._network = network
        self._cluster_id = cluster_id
        self.port = port
        self._process: NodeProcess | None = None
        self._faults = Faults()

    # -- life -------------------------------------------------------------------------------

    def _begin(self, config: BrokerConfig) -> Future[None]:
        """Begin to start the node. The future is done when the node serves requests.

        Raises:
            BrokerError: the node is already running.
        """
        if self._process is not None:
            raise BrokerError(f"{self._name} is already running")
        self._process = NodeProcess(
            config, self._network, self._faults, self._cluster_id, f"odradek-{config.node_id}"
        )
        return self._process.started

    def _finish(self) -> None:
        """Wait until the node that `_begin` starts serves requests.

        Raises:
            BrokerError: it cannot start.
        """
        process = self._process
        assert process is not None
        try:
            process.started.result(TIMEOUT_S)
        except Exception as error:
            self.kill()
            raise BrokerError(f"{self._name} does not start: {error}") from error
        self.port = process.node.server.endpoints[0].port

    def stop(self) -> None:
        """Stop the node cleanly, and keep the data. No error if it does not run."""
        if self._process is not None:
            process, self._process = self._process, None
            process.stop(TIMEOUT_S)
            self._network.reserve()

    def kill(self) -> None:
        """End the node at once, as `kill -9` does, and keep what it has written.

        No error if it does not run.
        """
        if self._process is not None:
            process, self._process = self._process, None
            process.kill(TIMEOUT_S)
            self._network.reserve()

    def pause(self) -> None:
        """Pause the node. Connections stay open, but no request is served.

        Raises:
            BrokerError: the node does not run.
        """
        self._running().pause(TIMEOUT_S)

    def resume(self) -> None:
        """Resume a paused node."""
        if self._process is not None:
            self._process.resume()

    def _running(self) -> NodeProcess:
        if self._process is None:
            raise BrokerError(f"{self._name} does not run")
        return self._process

    def _run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine on the node's event loop, wait for it, and return its result."""
        if self._process is None or self._process.is_paused:
            coroutine.close()
            problem = "is paused: resume it first" if self._process else "does not run"
            raise BrokerError(f"{self._name} {problem}")
        return self._process.run(coroutine).result(TIMEOUT_S)

    def _call(self, function: Callable[[], ResultT]) -> ResultT:
        """Call a function on the node's thread."""

        async def call() -> ResultT:
            return function()

        return self._run(call())

    # -- facts ------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap address for clients, `127.0.0.1:port`."""
        return f"{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether the node runs. A paused node runs, too."""
        return self._process is not None

    @property
    def is_paused(self) -> bool:
        """Whether the node is paused."""
        return self._process is not None and self._process.is_paused

    @property
    def node(self) -> Node:
        """The node. Only the node's thread may change its state, so a test may only read it.

        Raises:
            BrokerError: the node does not run.
        """
        return self._running().node

    def requests(self, api: str | int) -> int:
        """Return the number of requests of an API that have a response."""
        return self.node.dispatcher.entries[self._key(api)].metrics.count

    # -- faults -----------------------------------------------------------------------------

    def inject(self, api: str | int | None, error: ErrorCode | str, *, times: int = 1) -> None:
        """Respond to the next `times` requests of an API with an error.

        If `api` is None, requests of any API count. The error is in the response's error code, or
        in the error code of each partition, as the API requires.

        Raises:
            ValueError: there is no such API or no such error.
            BrokerError: the node does not run.
        """
        code = error if isinstance(error, ErrorCode) else ErrorCode.__members__.get(error)
        if code is None:
            raise ValueError(f"{error!r} is no error{_alike(str(error), ErrorCode.__members__)}")
        self._order(Fault(self._optional_key(api), times, error=code))

    def delay(self, api: str | int | None, seconds: float, *, times: int | None = None) -> None:
        """Delay the next `times` requests of an API; without `times`, all requests.

        If `api` is None, requests of any API count.
        """
        count = FOREVER if times is None else times
        self._order(Fault(self._optional_key(api), count, delay_s=seconds))

    def disconnect(self, api: str | int | None = None, *, times: int = 1) -> None:
        """Close the connection on the next requests of an API, without a response."""
        self._order(Fault(self._optional_key(api), times, disconnects=True))

    def disconnect_all(self) -> None:
        """Close all connections now."""

        def close() -> None:
            for connection in list(self.node.server.connections):
                connection.close()

        self._call(close)

    def heal(self) -> None:
        """Remove all injected faults."""
        self._faults.forget()

    def _order(self, fault: Fault) -> None:
        self._running()
        self._faults.add(fault)

    def _key(self, api: str | int) -> int:
        """Return the key of an API that the node serves.

        Raises:
            ValueError: there is no such API, or the node does not serve it.
            BrokerError: the node does not run.
        """
        served = self.node.dispatcher.entries
        found = BY_KEY.get(api) if isinstance(api, int) else BY_NAME.get(api)
        if found is None or found.key not in served:
            names = {entry.name for entry in served.values()}
            raise ValueError(f"{api!r} is not an API of the broker{_alike(str(api), names)}")
        return found.key

    def _optional_key(self, api: str | int | None) -> int | None:
        return None if api is None else self._key(api)


def _alike(word: str, known: Iterable[str]) -> str:
    """Return similar names, as the end of an error message; empty if there are none."""
    import difflib  # Imported here because only misspelt names need it.

    close = difflib.get_close_matches(word, list(known), n=2)
    return f"; did you mean {' or '.join(close)}?" if close else ""
