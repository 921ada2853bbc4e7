"""Makes the Kafka clients of a worker and its tasks from Java's settings.

A worker's file has settings of its own, and those of clients with `producer.`, `consumer.` and `admin.`. A
connector may override them with `producer.override.` and so on. Settings that Odradek's clients do not
have, such as `key.serializer`, are left out; the log names them once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.client.cluster import Cluster
from odradek.client.consuming.consumer import Consumer
from odradek.client.consuming.options import CONSUMER_SETTINGS
from odradek.client.producer import Producer
from odradek.client.producer.options import PRODUCER_SETTINGS
from odradek.client.shell.settings import CONNECTION_SETTINGS, ConnectionSettings, Given
from odradek.core.connect.errors import ConfigError

log = logging.getLogger(__name__)

_SOURCE_PRODUCER = {
    "acks": "all",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": str(2**31 - 1),
    "max.block.ms": str(2**31 - 1),
}
"""What a source's producer has by default, as in Apache Kafka: in order, and as long as it takes."""


class Clients:
    """Makes clients of one worker."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._worker = worker
        self._told: set[str] = set()

    # -- the worker's own -----------------------------------------------------------------------

    def _plain(self) -> dict[str, str]:
        return {n: v for n, v in self._worker.items() if n in CONNECTION_SETTINGS}

    def connection(self, client_id: str) -> ConnectionSettings:
        """Return how the worker itself connects.

        Raises:
            ConfigError: a setting is invalid.
        """
        found = {"client.id": client_id, **self._plain()}
        try:
            return Given(found, {}, CONNECTION_SETTINGS, {}).connection()
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def plain_cluster(self, client_id: str) -> Cluster:
        """Return connections to the worker's cluster.

        Raises:
            ConfigError: a setting is invalid.
        """
        connection = self.connection(client_id)
        return Cluster(
            connection.bootstrap,
            client_id=connection.client_id,
            connect_timeout_ms=connection.connect_timeout_ms,
            security=connection.security,
            checks_nodes=connection.checks_nodes,
        )

    def plain_consumer(self, client_id: str, *, reads_committed: bool) -> Consumer:
        """Return a consumer of one of the worker's topics, from its beginning.

        Raises:
            ConfigError: a setting is invalid.
        """
        settings = {
            "client.id": client_id,
            **self._plain(),
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if reads_committed else "read_uncommitted",
            "allow.auto.create.topics": "false",
        }
        try:
            return Consumer(settings)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def plain_producer(self, client_id: str, transactional_id: str | None = None) -> Producer:
        """Return a producer for one of the worker's topics.

        Raises:
            ConfigError: a setting is invalid.
        """
        settings = {
            "client.id": client_id,
            **self._plain(),
            "acks": "all",
            "linger.ms": "0",
            "enable.idempotence": "false",
            "max.in.flight.requests.per.connection": "1",
        }
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "enable.idempotence": "true"}
        try:
            return Producer(settings)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    # -- those of connectors --------------------------------------------------------------------

    def _merged(self, kind: str, connector: Mapping[str, str]) -> dict[str, str]:
        common = {n: v for n, v in self._worker.items() if n in CONNECTION_SETTINGS}
        own = _prefixed(self._worker, f"{kind}.")
        return {**common, **own, **_prefixed(connector, f"{kind}.override.")}

    def _known(self, kind: str, merged: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
        left_out = [f"{kind}.{name}" for name in merged if name not in known]
        for each in left_out:
            if each not in self._told:
                self._told.add(each)
                log.info("the setting %s has no effect: Odradek's %s does not have it", each, kind)
        return {name: value for name, value in merged.items() if name in known}

    def cluster(
        self, client_id: str, kind: str = "admin", connector: Mapping[str, str] | None = None
    ) -> Cluster:
        """Return connections to a cluster.

        Raises:
            ConfigError: a setting is invalid.
        """
        merged = self._merged(kind, connector or {})
        known = self._known(kind, merged, CONNECTION_SETTINGS) if kind == "admin" else merged
        found = {name: value for name, value in known.items() if name in CONNECTION_SETTINGS}
        try:
            connection = Given(found, {}, CONNECTION_SETTINGS, {}).connection()
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return Cluster(
            connection.bootstrap,
            client_id=merged.get("client.id", client_id),
            connect_timeout_ms=connection.connect_timeout_ms,
            security=connection.security,
            checks_nodes=connection.checks_nodes,
        )

    def producer(
        self,
        client_id: str,
        connector: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> Producer:
        """Return a producer.

        Raises:
            ConfigError: a setting is invalid.
        """
        merged = self._merged("producer", connector or {})
        base = _SOURCE_PRODUCER if defaults is None else defaults
        settings = {"client.id": client_id, **base, **merged}
        try:
            return Producer(self._known("producer", settings, PRODUCER_SETTINGS))
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def exact_producer(
        self, client_id: str, connector: Mapping[str, str], transactional_id: str
    ) -> Producer:
        """Return the producer of a task that runs exactly once.

        Raises:
            ConfigError: a setting is invalid.
        """
        always = {"transactional.id": transactional_id, "enable.idempotence": "true"}
        defaults = {n: v for n, v in _SOURCE_PRODUCER.items() if n not in always}
        merged = {**self._merged("producer", connector), **always}
        settings = {"client.id": client_id, **defaults, **merged}
        try:
            return Producer(self._known("producer", settings, PRODUCER_SETTINGS))
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def consumer(
        self,
        client_id: str,
        group: str,
        topics: Sequence[str],
        connector: Mapping[str, str],
        **callbacks: Any,
    ) -> Consumer:
        """Return a member of a group, which the caller closes.

        Raises:
            ConfigError: a setting is invalid.
        """
        merged = self._merged("consumer", connector)
        settings = {
            "client.id": client_id,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **merged,
        }
        known = self._known("consumer", settings, CONSUMER_SETTINGS)
        # The task decides what is committed, and converters decode.
        for name in ("key.deserializer", "value.deserializer"):
            known.pop(name, None)
        try:
            consumer = Consumer({**known, "enable.auto.commit": False})
        except ValueError as error:
            raise ConfigError(str(error)) from None
        consumer.subscribe(topics, **callbacks)
        return consumer


def _prefixed(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in given.items()
        if name.startswith(prefix) and not name.startswith(f"{prefix}override.")
    }
