"""The class `Broker`: a cluster of one node, in a thread."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import ConfigurationError
from odradek.config.load import load
from odradek.testing.network import NodeNetwork
from odradek.testing.node_control import HOST, BrokerError, NodeControl
from odradek.testing.topics import check_created, create_request

QUICK_SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "odradek.shutdown.timeout.ms": "1000",
}
"""Settings that make a test broker fast. The argument `settings` overrides them."""


class Broker(NodeControl):
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
        super().__init__("the broker", NodeNetwork(), port)
        self._topics = dict(topics or {})
        self._settings = {k: str(v) for k, v in (settings or {}).items()}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="odradek-")
            data = self._temporary.name
        self.data = data

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
        config = self._configuration()
        self._begin(config)
        try:
            self._finish()
        except BrokerError:
            if self._temporary is not None:
                self._temporary.cleanup()
            raise

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

    def restart(self) -> None:
        """Restart on the same port with the same data, and remove injected faults."""
        self.stop()
        self.heal()
        self.start()

    def close(self) -> None:
        """Stop the node, and remove the data unless the argument `data` was given."""
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    # -- topics -----------------------------------------------------------------------------

    def create_topics(
        self, topics: Mapping[str, int], settings: Mapping[str, object] | None = None
    ) -> None:
        """Create topics with the given numbers of partitions, all with the same settings.

        Raises:
            BrokerError: a topic cannot be created.
        """
        if topics:
            request = create_request(topics, settings, replicas=1)
            check_created(self._run(self.node.broker.controller.submit(None, request)))
