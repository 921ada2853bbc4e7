"""What the file of `odradek connect mirror` means (`MirrorMakerConfig`).

    clusters = eu, us
    eu.bootstrap.servers = ...        a setting of a cluster
    eu->us.enabled = true             a setting of a flow
    topics = orders                   a setting of all flows

Each flow has a worker, which keeps its state at the target, and three connectors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from odradek.connectors.mirror.checkpoint import MirrorCheckpointConnector
from odradek.connectors.mirror.client_definitions import CLIENT_SETTINGS, names
from odradek.connectors.mirror.config import CHECKPOINT, HEARTBEAT, SOURCE
from odradek.connectors.mirror.heartbeat import MirrorHeartbeatConnector
from odradek.connectors.mirror.source import MirrorSourceConnector
from odradek.core.connect.api import SourceConnector
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance
from odradek.core.connect.errors import ConfigError

CONNECTORS: Sequence[type[SourceConnector]] = (
    MirrorSourceConnector,
    MirrorHeartbeatConnector,
    MirrorCheckpointConnector,
)
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_PROVIDERS, _POLICY = "config.providers", "replication.policy"
_HEARTBEATS = "emit.heartbeats.enabled"
_OF_WORKERS = (
    *("offset.storage", "config.storage", "status.storage"),
    *("key.converter", "value.converter", "header.converter"),
    *("task", "worker", _POLICY, _PROVIDERS),
)
"""What the names of settings of all workers begin with. Workers have others only from their cluster."""
_OF_CLIENTS = re.compile(r"consumer.*|producer.*|admin.*")
_NAMES = frozenset(SOURCE.keys) | frozenset(CHECKPOINT.keys) | frozenset(HEARTBEAT.keys)

DEFINITION = (
    ConfigDef()
    .define(
        "clusters",
        ConfigType.LIST,
        importance=Importance.HIGH,
        documentation="The aliases of the clusters.",
        validator=names(),
    )
    .define(
        "dedicated.mode.enable.internal.rest",
        ConfigType.BOOLEAN,
        False,
        Importance.HIGH,
        "Whether the workers of several processes can ask each other.",
    )
)

Settings = dict[str, str]


class Pair(NamedTuple):
    """A flow: the aliases of the source and of the target."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class Flows:
    """All flows of a file."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Read the settings.

        Raises:
            ConfigError: one is missing or invalid.
        """
        parsed = DEFINITION.parse(given)
        self._given = dict(given)
        self.clusters: list[str] = parsed["clusters"]
        self.has_internal_rest: bool = parsed["dedicated.mode.enable.internal.rest"]

    def pairs(self, targets: Sequence[str] = ()) -> list[Pair]:
        """Return the flows that are enabled, and those that have heartbeats, to some or all clusters.

        Heartbeats go against the direction: those of the flow from `us` to `eu`, which need not be
        enabled, are written in `eu`, and the flow from `eu` to `us` copies them.

        Raises:
            ConfigError: there is none.
        """
        beats = self._given.get(_HEARTBEATS, "true")
        found = []
        for source in self.clusters:
            for target in self.clusters:
                pair = Pair(source, target)
                is_enabled = _is_true(self._given.get(f"{pair}.enabled", ""))
                has_beats = _is_true(self._given.get(f"{pair}.{_HEARTBEATS}", beats))
                if source != target and (is_enabled or has_beats):
                    found.append(pair)
        wanted = targets or self.clusters
        found = [each for each in found if each.target in wanted]
        if not found:
            raise ConfigError("No source->target replication flows.")
        return found

    def _stripped(self, prefix: str) -> Settings:
        """Return the settings with a prefix, without it."""
        return {
            name.removeprefix(prefix): value
            for name, value in self._given.items()
            if name.startswith(prefix) and name != prefix
        }

    def _beginning(self, prefix: str) -> Settings:
        return {name: value for name, value in self._given.items() if name.startswith(prefix)}

    def cluster(self, alias: str) -> Settings:
        """Return the settings of a cluster. Those of connections are for all kinds of clients."""
        found = self._stripped(f"{alias}.")
        for settings in (dict(found), self._given):
            for name in CLIENT_SETTINGS:
                value = settings.get(name)
                if value is None:
                    continue
                for kind in ("producer", "consumer", "admin"):
                    found.setdefault(f"{kind}.{name}", value)
                found.setdefault(name, value)
        return found

    def worker(self, pair: Pair) -> Settings:
        """Return the settings of the worker of a flow. Variables are not resolved yet."""
        found = self.cluster(pair.target)
        for prefix in _OF_WORKERS:
            found |= self._beginning(prefix)
        defaults = {
            "client.id": str(pair),
            "group.id": f"{pair.source}-mm2",
            "offset.storage.topic": f"mm2-offsets.{pair.source}.internal",
            "status.storage.topic": f"mm2-status.{pair.source}.internal",
            "config.storage.topic": f"mm2-configs.{pair.source}.internal",
            "key.converter": _BYTES,
            "value.converter": _BYTES,
            "header.converter": _BYTES,
        }
        return defaults | found

    def connector(self, pair: Pair, made: type[SourceConnector]) -> Settings:
        """Return the configuration of a connector of a flow, whose name is that of its class."""
        found = {name: value for name, value in self._given.items() if name in _NAMES}
        found |= self._beginning(_PROVIDERS) | self._beginning(_POLICY)
        for end, alias in (("source", pair.source), ("target", pair.target)):
            for name, value in self.cluster(alias).items():
                is_of_client = _OF_CLIENTS.fullmatch(name) is not None
                found[f"{end}.{name}" if is_of_client else f"{end}.cluster.{name}"] = value
        found.setdefault("name", made.__name__)
        found.setdefault("connector.class", made.java_name)
        found.setdefault("source.cluster.alias", pair.source)
        found.setdefault("target.cluster.alias", pair.target)
        found |= self._stripped(f"{pair}.")
        found.setdefault("enabled", "false")
        return found


def _is_true(text: str) -> bool:
    return text.lower() == "true"
