"""The class `Broker`: a node in a thread, with fault injection."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import ConfigurationError
from odradek.config.load import load
from odradek.env.event_loop import new_event_loop
from odradek.model.errors import ErrorCode
from odradek.node.node import Node
from odradek.testing.faults import FOREVER, Fault, Faults
from odradek.testing.files import UnsyncedFileSystem
from odradek.wire.api import BY_KEY, BY_NAME
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest

HOST = "127.0.0.1"
QUICK_SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "odradek.shutdown.timeout.ms": "1000",
}
"""Settings that make a test broker fast. The argument `settings` overrides them."""
TIMEOUT_S = 60.0

ResultT = TypeVar("ResultT")


class BrokerError(Exception):
    """The broker could not do what a test requested."""


class Broker:
    """A broker for tests. Call its methods from the test's thread.

    `topics` has the number of partitions by name. The `with` statement creates these topics.
    `settings` are settings as in server.properties. `data` is a directory that is kept. Without
    `data` the broker uses a temporary directory, which `close` removes. Port 0 means a free port.
    `restart` uses the same port again.
    """

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, object] | None = None,
        data: str | None = None,
        port: int = 0,
    ) -> None:
        self._topics = dict(topics or {})
        self._settings = {k: str(v) for k, v in (settings or {}).items()}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="odradek-")
            data = self._temporary.name
        self.data = data
        self.port = port
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: Node | None = None
        self._faults = Faults()
        self._frozen: threading.Event | None = None

    # -- life -------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        self.create_topics(self._topics)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the broker. It serves requests when this method returns.

        Raises:
            BrokerError: the broker is already running, or cannot start.
        """
        if self._thread is not None:
            raise BrokerError("the broker is already running")
        config = self._configuration()
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._serve, args=(config, started), name="odradek-broker", daemon=True
        )
        self._thread.start()
        try:
            started.result(TIMEOUT_S)
        except Exception as error:
            self._thread.join(TIMEOUT_S)
            self._thread = None
            if self._temporary is not None:
                self._temporary.cleanup()
            raise BrokerError(f"the broker does not start: {error}") from error

    def _configuration(self) -> BrokerConfig:
        """Return the broker's configuration. Warn about settings without effect."""
        overrides = {
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            **QUICK_SETTINGS,
            **self._settings,
        }
        try:
            loaded = load(None, overrides, self.data)
        except ConfigurationError as error:
            self.close()
            raise BrokerError(f"the broker does not start: {error}") from error
        for text in loaded.warnings:
            warnings.warn(text, stacklevel=4)
        return loaded.config

    def _serve(self, config: BrokerConfig, started: Future[None]) -> None:
        """Run the broker in its thread."""
        loop, selector = new_event_loop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            node = Node(config, selector, file_system=UnsyncedFileSystem(), inject=self._faults)
            try:
                runner.run(node.start())
            except BaseException as error:  # noqa: BLE001  reported to the waiting thread
                started.set_exception(error)
                return
            self.port = node.server.endpoints[0].port
            self._node, self._loop = node, loop
            started.set_result(None)
            loop.run_forever()

    def stop(self) -> None:
        """Stop the node cleanly, and keep the data."""
        thread, loop, node = self._thread, self._loop, self._node
        if thread is None or loop is None or node is None:
            return
        self.resume()
        self._run(node.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(TIMEOUT_S)
        self._thread = self._loop = self._node = None

    def restart(self) -> None:
        """Restart on the same port with the same data, and remove injected faults."""
        self.stop()
        self._faults = Faults()
        self.start()

    def close(self) -> None:
        """Stop the node, and remove the data unless the argument `data` was given."""
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine on the broker's event loop, wait for it, and return its result."""
        if self._loop is None or self._frozen is not None:
            coroutine.close()
            problem = "is paused: resume it first" if self._loop else "does not run"
            raise BrokerError(f"the broker {problem}")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)

    def _call(self, function: Callable[[], ResultT]) -> ResultT:
        """Call a function on the broker's thread."""

        async def call() -> ResultT:
            return function()

        return self._run(call())

    # -- facts ------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap address for clients, `127.0.0.1:port`."""
        return f"{HOST}:{self.port}"

    @property
    def node(self) -> Node:
        """The node. Only the broker's thread may change its state, so a test may only read it.

        Raises:
            BrokerError: the broker does not run.
        """
        if self._node is None:
            raise BrokerError("the broker does not run")
        return self._node

    def requests(self, api: str | int) -> int:
        """Return the number of requests of an API that have a response."""
        return self.node.dispatcher.entries[self._key(api)].metrics.count

    # -- topics -----------------------------------------------------------------------------

    def create_topics(
        self, topics: Mapping[str, int], settings: Mapping[str, object] | None = None
    ) -> None:
        """Create topics with the given numbers of partitions, all with the same settings.

        Raises:
            BrokerError: a topic cannot be created.
        """
        if not topics:
            return
        from odradek.wire.generated.create_topics_request import CreatableTopicConfig

        configs = [CreatableTopicConfig(name=n, value=str(v)) for n, v in (settings or {}).items()]
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name, num_partitions=count, replication_factor=1, configs=configs
                )
                for name, count in topics.items()
            ]
        )
        response = self._run(self.node.broker.controller.submit(None, request))
        for topic in response.topics:
            if topic.error_code:
                raise BrokerError(f"topic {topic.name}: {topic.error_message}")

    # -- faults -----------------------------------------------------------------------------

    def inject(self, api: str | int | None, error: ErrorCode | str, *, times: int = 1) -> None:
        """Respond to the next `times` requests of an API with an error.

        If `api` is None, requests of any API count. The error is in the response's error code, or
        in the error code of each partition, as the API requires.

        Raises:
            ValueError: there is no such API or no such error.
            BrokerError: the broker does not run.
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

    def pause(self) -> None:
        """Pause the broker. Connections stay open, but no request is served."""
        if self._frozen is not None:
            return
        if self._loop is None:
            raise BrokerError("the broker does not run")
        thaw = self._frozen = threading.Event()
        stopped = threading.Event()

        def freeze() -> None:
            stopped.set()
            thaw.wait()

        self._loop.call_soon_threadsafe(freeze)
        stopped.wait(TIMEOUT_S)

    def resume(self) -> None:
        """Resume a paused broker."""
        if self._frozen is not None:
            self._frozen.set()
            self._frozen = None

    def _order(self, fault: Fault) -> None:
        if self._node is None:
            raise BrokerError("the broker does not run")
        self._faults.add(fault)

    def _key(self, api: str | int) -> int:
        """Return the key of an API that the broker serves.

        Raises:
            ValueError: there is no such API, or the broker does not serve it.
            BrokerError: the broker does not run.
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
