"""MirrorMaker in a process of its own: a worker for each flow, without a REST API (`MirrorMaker`).

A worker keeps configurations, offsets and states at the target of its flow, in the topics of Java's
dedicated mode. The leader of the flow's group makes its connectors from the file.
"""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from odradek.connect.clients import Clients
from odradek.connect.distributed_herder import DistributedHerder
from odradek.connect.variables import resolved
from odradek.connectors.mirror.flows import CONNECTORS, Flows, Pair
from odradek.core.connect import herder_messages as messages
from odradek.core.connect.plugins import Plugins
from odradek.core.connect.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_NO_URL = "NOTUSED"
"""What Java's workers have as their address if they cannot be asked."""
_DEFAULTS = {"task.host": "thread"}
"""Tasks of MirrorMaker do not hang, and records need not pass between processes."""


class FlowHerder(DistributedHerder):
    """The herder of a flow. When it becomes the leader, it makes the connectors."""

    def __init__(
        self,
        flows: Flows,
        pair: Pair,
        plugins: Plugins,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """Read the settings.

        Raises:
            ConnectError: one is missing or invalid.
        """
        self._pair = pair
        self._wanted = {made.__name__: flows.connector(pair, made) for made in CONNECTORS}
        self._was_leader = False
        given = _DEFAULTS | resolved(flows.worker(pair))
        config = WorkerConfig.of(given, is_distributed=True)
        for name, near in config.unknown.items():
            if near is not None:
                log.warning("%s: the setting %s is not known; do you mean %s?", pair, name, near)
        worker_id = f"{socket.getfqdn()}/{pair}/{uuid.uuid4()}"
        super().__init__(config, plugins, Clients(given), _NO_URL, worker_id, on_failure)

    def _feed(self, event: messages.Event) -> None:
        super()._feed(event)
        if not self._machine.is_member:
            return  # while the group rebalances, it has no leader
        is_leader = self._machine.is_leader
        if is_leader and not self._was_leader:
            log.info("%s: this process leads, and makes the connectors", self._pair)
            self.settled(self._make_connectors).add_done_callback(self._note)
        self._was_leader = is_leader

    def _make_connectors(self) -> None:
        for name, wanted in self._wanted.items():
            if self.log.config(name) == wanted:
                log.info("%s: %s is up to date", self._pair, name)
                continue
            made = self.put_connector(name, wanted, None, may_replace=True)
            made.add_done_callback(partial(self._made, name))

    def _made(self, name: str, found: Future[Any]) -> None:
        error = found.exception()
        if error is None:
            log.info("%s: %s is configured", self._pair, name)
        elif isinstance(error, messages.Redirect):
            log.info("%s: another process leads now, and configures %s", self._pair, name)
        else:
            log.error("%s: %s cannot be configured: %s", self._pair, name, error)

    def _note(self, found: Future[Any]) -> None:
        error = found.exception()
        if error is not None:
            log.error("%s: the connectors cannot be made: %s", self._pair, error)


class MirrorMaker:
    """All flows of a file."""

    def __init__(
        self, given: Mapping[str, str], plugins: Plugins, targets: Sequence[str] = ()
    ) -> None:
        """Read the settings. With `targets` only the flows to these clusters run.

        Raises:
            ConnectError: a setting is missing or invalid, or there is no flow.
        """
        flows = Flows(given)
        if flows.has_internal_rest:
            log.warning(
                "dedicated.mode.enable.internal.rest has no effect: only one process should run a flow"
            )
        self.failure: Exception | None = None
        """Why a flow cannot go on."""
        self.has_ended = threading.Event()
        """Whether a flow cannot go on."""
        self.flows: dict[Pair, FlowHerder] = {}
        for pair in flows.pairs(targets):
            self.flows[pair] = FlowHerder(flows, pair, plugins, self._failed)

    def _failed(self, error: Exception) -> None:
        self.failure = error
        self.has_ended.set()

    def start(self) -> None:
        """Start all flows."""
        for each in self.flows.values():
            each.start()

    def stop(self) -> None:
        """Stop all flows, all at once."""
        threads = [threading.Thread(target=each.stop) for each in self.flows.values()]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
