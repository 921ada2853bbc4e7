"""Makes the Kafka clients of the connectors from Java's settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from odradek.client.cluster import Cluster
from odradek.client.consuming.consumer import Consumer
from odradek.client.consuming.options import CONSUMER_SETTINGS
from odradek.client.producer import Producer
from odradek.client.producer.options import PRODUCER_SETTINGS
from odradek.client.shell.settings import CONNECTION_SETTINGS, Given
from odradek.core.connect.errors import ConfigError

log = logging.getLogger(__name__)

Settings = Mapping[str, str]
_told: set[str] = set()


def _known(kind: str, given: Settings, known: Sequence[str]) -> dict[str, str]:
    """Leave out what Odradek's clients do not have; the log names it once."""
    for name in given:
        if name not in known and f"{kind} {name}" not in _told:
            _told.add(f"{kind} {name}")
            log.info("the setting %s has no effect: Odradek's %s does not have it", name, kind)
    return {name: value for name, value in given.items() if name in known}


def make_cluster(given: Settings, kind: str = "admin client") -> Cluster:
    """Return connections to a cluster, with the settings of a kind of client.

    Raises:
        ConfigError: a setting is invalid.
    """
    own = {name: value for name, value in given.items() if name in CONNECTION_SETTINGS}
    found = _known(kind, given, CONNECTION_SETTINGS) if kind == "admin client" else own
    try:
        connection = Given(found, {}, CONNECTION_SETTINGS, {}).connection()
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return Cluster(
        connection.bootstrap,
        client_id=connection.client_id,
        connect_timeout_ms=connection.connect_timeout_ms,
        security=connection.security,
    )


def make_consumer(given: Settings) -> Consumer:
    """Return a consumer of bytes, without partitions.

    Raises:
        ConfigError: a setting is invalid.
    """
    found = _known("consumer", given, CONSUMER_SETTINGS)
    for name in ("key.deserializer", "value.deserializer", "enable.auto.commit"):
        found.pop(name, None)
    try:
        return Consumer({**found, "enable.auto.commit": False})
    except ValueError as error:
        raise ConfigError(str(error)) from None


def make_producer(given: Settings) -> Producer:
    """Return a producer of bytes.

    Raises:
        ConfigError: a setting is invalid.
    """
    found = _known("producer", given, PRODUCER_SETTINGS)
    for name in ("key.serializer", "value.serializer"):
        found.pop(name, None)
    try:
        return Producer(found)
    except ValueError as error:
        raise ConfigError(str(error)) from None
