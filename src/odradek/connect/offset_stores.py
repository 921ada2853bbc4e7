"""Where the offsets of a source are: in the worker's store, or in a topic of the connector's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from odradek.connect.clients import Clients
from odradek.connect.source_runner import OffsetStore
from odradek.connect.topic_log import TopicSpec
from odradek.connect.topic_stores import BothOffsetStores, TopicOffsetStore, topic_spec
from odradek.core.connect.connector_config import OFFSETS_TOPIC
from odradek.core.connect.worker_config import WorkerConfig


class OffsetStores(Protocol):
    """Opens the store of a source."""

    def opened(
        self, connector: str, config: Mapping[str, str], transactional_id: str | None = None
    ) -> Any:
        """Return the store, for a `with` statement. With `transactional_id`, each write is a transaction."""
        ...


class OneStore:
    """All sources have the same store."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store

    @contextmanager
    def opened(
        self, connector: str, config: Mapping[str, str], transactional_id: str | None = None
    ) -> Iterator[OffsetStore]:
        """See `OffsetStores`."""
        yield self._store


class TopicStores:
    """The topic of the worker, and those of connectors with `offsets.storage.topic`."""

    def __init__(self, config: WorkerConfig, clients: Clients, workers: TopicOffsetStore) -> None:
        self._config = config
        self._clients = clients
        self._workers = workers
        self._is_exact = config.text("exactly.once.source.support").lower() == "enabled"

    @contextmanager
    def opened(
        self, connector: str, config: Mapping[str, str], transactional_id: str | None = None
    ) -> Iterator[TopicOffsetStore | BothOffsetStores]:
        """See `OffsetStores`. A topic of the connector's own is read to its end first.

        Raises:
            ConnectError: the topic cannot be used.
        """
        common = topic_spec(self._config, "offset")
        name = (config.get(OFFSETS_TOPIC) or "").strip() or common.name
        if name == common.name and transactional_id is None:
            yield self._workers
            return
        spec = TopicSpec(
            name,
            OFFSETS_TOPIC,
            common.purpose,
            common.partitions,
            common.replication_factor,
            common.configs,
        )
        own = TopicOffsetStore(
            spec,
            self._clients,
            f"connector-offsets-{connector}",
            reads_committed=self._is_exact,
            transactional_id=transactional_id,
        )
        try:
            own.start()
            yield own if name == common.name else BothOffsetStores(own, self._workers)
        finally:
            own.stop()
