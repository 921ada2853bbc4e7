"""The settings of a worker, with Kafka's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.core.connect.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigType,
    Importance,
    Password,
    at_least,
    between,
    one_of,
    one_of_in_any_case,
)

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_Row = tuple[str, str, Any]

_COMMON: tuple[_Row, ...] = (
    ("bootstrap.servers", "LIST", ["localhost:9092"]),
    ("key.converter", "STRING", REQUIRED),
    ("value.converter", "STRING", REQUIRED),
    ("header.converter", "STRING", _HEADERS),
    ("listeners", "LIST", ["http://:8083"]),
    ("rest.advertised.host.name", "STRING", None),
    ("rest.advertised.port", "INT", None),
    ("rest.advertised.listener", "STRING", None),
    ("admin.listeners", "LIST", None),
    ("access.control.allow.origin", "STRING", ""),
    ("access.control.allow.methods", "STRING", ""),
    ("response.http.headers.config", "STRING", ""),
    ("rest.extension.classes", "LIST", []),
    ("plugin.path", "STRING", None),
    ("plugin.discovery", "STRING", "hybrid_warn"),
    ("connector.client.config.override.policy", "STRING", "All"),
    ("topic.tracking.enable", "BOOLEAN", True),
    ("topic.tracking.allow.reset", "BOOLEAN", True),
    ("topic.creation.enable", "BOOLEAN", True),
    ("config.providers", "LIST", []),
    ("task.host", "STRING", "process"),
    ("rest.basic.auth.users", "PASSWORD", None),
)
_POSITIVE: tuple[tuple[str, int], ...] = (
    ("task.shutdown.graceful.timeout.ms", 5_000),
    ("offset.flush.interval.ms", 60_000),
    ("offset.flush.timeout.ms", 5_000),
    ("restart.policy.budget", 0),
    ("restart.policy.window.ms", 3_600_000),
    ("restart.policy.pause.ms", 10_000),
)
_DISTRIBUTED: tuple[_Row, ...] = (
    ("group.id", "STRING", REQUIRED),
    ("config.storage.topic", "STRING", REQUIRED),
    ("offset.storage.topic", "STRING", REQUIRED),
    ("status.storage.topic", "STRING", REQUIRED),
    ("inter.worker.signature.algorithm", "STRING", "HmacSHA256"),
    ("inter.worker.key.generation.algorithm", "STRING", "HmacSHA256"),
    ("inter.worker.verification.algorithms", "LIST", ["HmacSHA256"]),
)
_DISTRIBUTED_NUMBERS: tuple[tuple[str, int], ...] = (
    ("session.timeout.ms", 10_000),
    ("heartbeat.interval.ms", 3_000),
    ("rebalance.timeout.ms", 60_000),
    ("worker.sync.timeout.ms", 3_000),
    ("worker.unsync.backoff.ms", 300_000),
    ("scheduled.rebalance.max.delay.ms", 300_000),
    ("inter.worker.key.ttl.ms", 3_600_000),
)
_NOT_SETTINGS = (
    "producer.",
    "consumer.",
    "admin.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "ssl.",
    "sasl.",
    "listeners.https.",
    "admin.listeners.https.",
    "metrics.",
    "metric.",
)


def _definitions(*, is_distributed: bool) -> ConfigDef:
    config = ConfigDef()
    for name, kind, default in _COMMON:
        config.define(name, ConfigType(kind), default, Importance.MEDIUM)
    for name, number in _POSITIVE:
        config.define(name, ConfigType.LONG, number, validator=at_least(0))
    if not is_distributed:
        return config.define("offset.storage.file.filename", ConfigType.STRING)
    for name, kind, default in _DISTRIBUTED:
        config.define(name, ConfigType(kind), default)
    for name, number in _DISTRIBUTED_NUMBERS:
        config.define(name, ConfigType.INT, number, validator=at_least(0))
    config.define(
        "connect.protocol",
        ConfigType.STRING,
        "sessioned",
        validator=one_of_in_any_case("EAGER", "COMPATIBLE", "SESSIONED"),
    )
    config.define(
        "exactly.once.source.support",
        ConfigType.STRING,
        "disabled",
        validator=one_of_in_any_case("DISABLED", "PREPARING", "ENABLED"),
    )
    for prefix, partitions in (("offset", 25), ("status", 5)):
        config.define(f"{prefix}.storage.partitions", ConfigType.INT, partitions)
    for prefix in ("config", "offset", "status"):
        config.define(
            f"{prefix}.storage.replication.factor",
            ConfigType.SHORT,
            3,
            validator=between(-1, 32_767),
        )
    return config


STANDALONE = _definitions(is_distributed=False)
DISTRIBUTED = _definitions(is_distributed=True)


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The settings of a worker. `given` is the file as it is, `parsed` has the values by name."""

    given: Mapping[str, str]
    parsed: Mapping[str, Any]
    is_distributed: bool

    @classmethod
    def of(cls, given: Mapping[str, str], *, is_distributed: bool) -> WorkerConfig:
        """Read the settings.

        Raises:
            ConfigError: one is missing or invalid.
        """
        definitions = DISTRIBUTED if is_distributed else STANDALONE
        parsed = definitions.parse(given)
        one_of("process", "thread")("task.host", parsed["task.host"])
        return cls(given, parsed, is_distributed)

    def text(self, name: str) -> str:
        """Return a text, or the empty text."""
        value = self.parsed[name]
        return value.secret if isinstance(value, Password) else (value or "")

    def number(self, name: str) -> int:
        """Return a number."""
        return int(self.parsed[name])

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        return bool(self.parsed[name])

    def words(self, name: str) -> list[str]:
        """Return a list."""
        return list(self.parsed[name] or [])

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the settings whose names begin with a prefix, without the prefix."""
        return {
            name.removeprefix(prefix): value
            for name, value in self.given.items()
            if name.startswith(prefix) and len(name) > len(prefix)
        }

    @property
    def unknown(self) -> dict[str, str | None]:
        """The names that no worker knows, with the nearest name."""
        definitions = DISTRIBUTED if self.is_distributed else STANDALONE
        names = [each for each in self.given if not each.startswith(_NOT_SETTINGS)]
        return definitions.unknown(names)
