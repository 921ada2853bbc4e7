"""A distributed worker: one of a group that shares connectors and tasks, and keeps them in topics."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from odradek.connect.distributed_herder import DistributedHerder
from odradek.connect.herder import Herder
from odradek.connect.running_worker import RunningWorker
from odradek.core.connect.plugins import Plugins


class DistributedWorker(RunningWorker):
    """See the module."""

    def __init__(self, given: Mapping[str, str], plugins: Plugins) -> None:
        """Read the settings, and listen.

        Raises:
            ConnectError: a setting is missing or invalid.
            OSError: the address of the REST API cannot be used.
        """
        self.failure: Exception | None = None
        """Why the worker cannot go on."""
        self.has_ended = threading.Event()
        """Whether the worker cannot go on."""
        super().__init__(given, plugins, is_distributed=True)

    def _make_herder(self, plugins: Plugins) -> Herder:
        url = f"{self.scheme}://{self.worker_id}/"
        return DistributedHerder(
            self.config, plugins, self.clients, url, self.worker_id, self._failed
        )

    def _failed(self, error: Exception) -> None:
        self.failure = error
        self.has_ended.set()
