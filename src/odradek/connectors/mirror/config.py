"""The definitions of the three connectors, and what they read from their configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from odradek.connect.registry import load_class
from odradek.connectors.mirror.client_definitions import CLIENT_SETTINGS, define_clients, names
from odradek.connectors.mirror.filters import (
    GROUPS,
    GROUPS_EXCLUDE,
    PROPERTIES_EXCLUDE,
    TOPICS,
    TOPICS_EXCLUDE,
    GroupFilter,
    PropertyFilter,
    TopicFilter,
)
from odradek.connectors.mirror.policies import IdentityReplicationPolicy, ReplicationPolicy
from odradek.core.connect.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigType,
    ConfigValue,
    Importance,
    Validator,
    one_of,
    one_of_in_any_case,
)
from odradek.core.connect.connector_config import SINK_CONFIG, SOURCE_CONFIG

_Row = tuple[str, str, Any, str, str, Validator | None]
"""Name, type, default, importance, documentation, validator."""
_FORWARDING_ADMIN = "org.apache.kafka.clients.admin.ForwardingAdmin"
_CLASSES = {
    each.java_name: each
    for each in (
        ReplicationPolicy,
        IdentityReplicationPolicy,
        TopicFilter,
        GroupFilter,
        PropertyFilter,
    )
}
_SOURCE, _TARGET = "source", "target"
_OF_ALL_CONNECTORS: Final = frozenset(SOURCE_CONFIG.keys) & frozenset(SINK_CONFIG.keys)
"""The settings of sources and of sinks: Java's connectors of MirrorMaker define them once more."""

_OF_CONNECTORS: tuple[_Row, ...] = (
    ("enabled", "BOOLEAN", True, "LOW", "Whether records flow from source to target.", None),
    ("source.cluster.alias", "STRING", REQUIRED, "HIGH", "The short name of the source.", None),
    ("target.cluster.alias", "STRING", _TARGET, "HIGH", "The short name of the target.", None),
    (
        "admin.timeout.ms",
        "LONG",
        60_000,
        "LOW",
        "How long the start waits for each step that lists or makes topics or groups.",
        None,
    ),
    (
        "replication.policy.class",
        "CLASS",
        ReplicationPolicy,
        "LOW",
        "How topics are called at the target.",
        None,
    ),
    (
        "replication.policy.separator",
        "STRING",
        ".",
        "LOW",
        "What stands between the alias and the name.",
        None,
    ),
    (
        "replication.policy.internal.topic.separator.enabled",
        "BOOLEAN",
        True,
        "LOW",
        "Whether the topics of offset syncs and checkpoints have this separator, too.",
        None,
    ),
    (
        "forwarding.admin.class",
        "CLASS",
        _FORWARDING_ADMIN,
        "LOW",
        "Who makes topics. There is only Kafka's own class.",
        None,
    ),
    (
        "metric.reporters",
        "LIST",
        ["org.apache.kafka.common.metrics.JmxReporter"],
        "LOW",
        "Classes of Java for metrics. They have no effect.",
        names(),
    ),
    (
        "security.protocol",
        "STRING",
        "PLAINTEXT",
        "MEDIUM",
        "How clients connect.",
        one_of_in_any_case("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"),
    ),
    ("config.providers", "LIST", [], "LOW", "The names of config providers.", names()),
)
_METRIC_NAMES: _Row = (
    "metric.names.formats",
    "LIST",
    ["legacy"],
    "LOW",
    "The names of Java's metrics. They have no effect.",
    names(may_be_empty=False, words=("legacy", "new")),
)
_TOPIC_FILTER: _Row = (
    "topic.filter.class",
    "CLASS",
    TopicFilter,
    "LOW",
    "What selects topics.",
    None,
)
_LOCATION: _Row = (
    "offset-syncs.topic.location",
    "STRING",
    _SOURCE,
    "LOW",
    "Which cluster has the topic of offset syncs.",
    one_of(_SOURCE, _TARGET),
)
_POLL: _Row = (
    "consumer.poll.timeout.ms",
    "LONG",
    1000,
    "LOW",
    "How long a task waits for records.",
    None,
)


def _every(word: str, what: str, seconds: int = 600, *, enabled: bool = True) -> tuple[_Row, _Row]:
    """Return the rows of something that is done at an interval."""
    return (
        (f"{word}.enabled", "BOOLEAN", enabled, "LOW", f"Whether {what}.", None),
        (f"{word}.interval.seconds", "LONG", seconds, "LOW", "How often.", None),
    )


_OF_SOURCE: tuple[_Row, ...] = (
    ("topics", "LIST", TOPICS, "HIGH", "The topics: names and regular expressions.", names()),
    (
        "topics.exclude",
        "LIST",
        TOPICS_EXCLUDE,
        "HIGH",
        "Topics that are left out, whatever topics says.",
        names(),
    ),
    (
        "config.properties.exclude",
        "LIST",
        PROPERTIES_EXCLUDE,
        "HIGH",
        "The settings of topics that are not copied.",
        names(),
    ),
    _TOPIC_FILTER,
    (
        "config.property.filter.class",
        "CLASS",
        PropertyFilter,
        "LOW",
        "What selects the settings of topics.",
        None,
    ),
    _POLL,
    *_every("refresh.topics", "new topics and partitions are looked for"),
    *_every("sync.topic.configs", "settings of topics are copied"),
    *_every("sync.topic.acls", "ACLs of topics are copied"),
    ("replication.factor", "INT", 2, "LOW", "The replicas of new topics at the target.", None),
    (
        "offset-syncs.topic.replication.factor",
        "SHORT",
        3,
        "LOW",
        "The replicas of the topic of offset syncs.",
        None,
    ),
    (
        "offset.lag.max",
        "LONG",
        100,
        "LOW",
        "After how many records an offset sync is due.",
        None,
    ),
    _LOCATION,
    (
        "emit.offset-syncs.enabled",
        "BOOLEAN",
        True,
        "LOW",
        "Whether offset syncs are written. Checkpoints need them.",
        None,
    ),
    (
        "heartbeats.replication.enabled",
        "BOOLEAN",
        True,
        "LOW",
        "Whether heartbeats are copied, whatever topics says.",
        None,
    ),
    _METRIC_NAMES,
)
_OF_CHECKPOINTS: tuple[_Row, ...] = (
    _POLL,
    ("groups", "LIST", GROUPS, "HIGH", "The groups: names and regular expressions.", names()),
    (
        "groups.exclude",
        "LIST",
        GROUPS_EXCLUDE,
        "HIGH",
        "Groups that are left out, whatever groups says.",
        names(),
    ),
    ("group.filter.class", "CLASS", GroupFilter, "LOW", "What selects groups.", None),
    *_every("refresh.groups", "new groups are looked for"),
    *_every("emit.checkpoints", "offsets of groups are translated", 60),
    *_every(
        "sync.group.offsets",
        "translated offsets are committed at the target, for groups without members there",
        60,
        enabled=False,
    ),
    (
        "checkpoints.topic.replication.factor",
        "SHORT",
        3,
        "LOW",
        "The replicas of the topic of checkpoints.",
        None,
    ),
    _LOCATION,
    _TOPIC_FILTER,
    _METRIC_NAMES,
)
_OF_HEARTBEATS: tuple[_Row, ...] = (
    *_every("emit.heartbeats", "heartbeats are written", 1),
    (
        "heartbeats.topic.replication.factor",
        "SHORT",
        3,
        "LOW",
        "The replicas of the topic of heartbeats.",
        None,
    ),
)


def _define(config: ConfigDef, rows: tuple[_Row, ...]) -> ConfigDef:
    for name, kind, default, importance, text, validator in rows:
        config.define(
            name, ConfigType(kind), default, Importance(importance), text, validator=validator
        )
    return config


def _base() -> ConfigDef:
    config = ConfigDef()
    config.keys.update(
        (name, key) for name, key in SOURCE_CONFIG.keys.items() if name in _OF_ALL_CONNECTORS
    )
    return define_clients(_define(config, _OF_CONNECTORS))


SOURCE: Final = _define(_base(), _OF_SOURCE)
CHECKPOINT: Final = _define(_base(), _OF_CHECKPOINTS)
HEARTBEAT: Final = _define(_base(), _OF_HEARTBEATS)
TASK_PARTITIONS, TASK_GROUPS, TASK_INDEX = (
    "task.assigned.partitions",
    "task.assigned.groups",
    "task.index",
)


def find_class(name: str) -> Any:
    """Return a policy or a filter: Java's name of one of Odradek's, or `package.module:Class`.

    Raises:
        LookupError: there is none.
    """
    if name == _FORWARDING_ADMIN:
        return name
    found = _CLASSES.get(name)
    if found is not None:
        return found
    if ":" not in name:
        raise LookupError(name)
    return load_class(name)


def validate(definition: ConfigDef, config: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return the values with their errors. The worker checks those that all connectors have."""
    values = definition.validate(config, find_class)
    return {
        name: value
        for name, value in values.items()
        if name not in _OF_ALL_CONNECTORS or name not in config
    }


def add_error(values: dict[str, ConfigValue], name: str, message: str) -> None:
    """Add an error to a value."""
    values.setdefault(name, ConfigValue(name)).errors.append(message)


class MirrorConfig:
    """The configuration of a connector or a task."""

    def __init__(self, definition: ConfigDef, given: Mapping[str, str]) -> None:
        """Parse it.

        Raises:
            ConfigError: a value is missing or invalid.
        """
        own = ConfigDef()
        own.keys.update(
            (name, key) for name, key in definition.keys.items() if name not in _OF_ALL_CONNECTORS
        )
        self.given = dict(given)
        self.parsed = own.parse(given, find_class)
        self.name = given.get("name", "")
        self.source: str = self.parsed["source.cluster.alias"]
        self.target: str = self.parsed["target.cluster.alias"]
        self.is_enabled: bool = self.parsed["enabled"]
        self.policy: ReplicationPolicy = self.parsed["replication.policy.class"](self.given)

    @property
    def label(self) -> str:
        """What the connector or task is called in client ids and in the log."""
        index = self.given.get(TASK_INDEX)
        end = "" if index is None else f"-{index}"
        return f"{self.source}->{self.target}|{self.name}{end}"

    @property
    def timeout_s(self) -> float:
        """How long a step of the start may take."""
        timeout_ms: int = self.parsed["admin.timeout.ms"]
        return timeout_ms / 1000

    def interval_s(self, word: str) -> float | None:
        """Return the interval of something; None if it is not done."""
        if not self.parsed[f"{word}.enabled"]:
            return None
        seconds: int = self.parsed[f"{word}.interval.seconds"]
        return float(seconds)

    def filter(self, name: str) -> Any:
        """Make the filter whose class a setting names."""
        return self.parsed[name](self.given)

    @property
    def syncs_are_at_source(self) -> bool:
        """Whether the source has the topic of offset syncs."""
        return bool(self.parsed["offset-syncs.topic.location"] == _SOURCE)

    @property
    def offset_syncs_topic(self) -> str:
        """The topic of offset syncs. It is called after the cluster at the other end of the flow."""
        other = self.target if self.syncs_are_at_source else self.source
        return self.policy.offset_syncs_topic(other)

    @property
    def checkpoints_topic(self) -> str:
        """The topic of checkpoints, at the target."""
        return self.policy.checkpoints_topic(self.source)

    def client(self, cluster: str, kind: str, role: str | None) -> dict[str, str]:
        """Return the settings of a client. `cluster` is source or target, `kind` is consumer and so on."""
        found = client_settings(self.given, cluster, kind)
        if role is not None:
            own = found.get("client.id")
            found["client.id"] = f"{'' if own is None else own + '|'}{self.label}|{role}"
        return found


def client_settings(given: Mapping[str, str], cluster: str, kind: str) -> dict[str, str]:
    """Return the settings of a kind of client in a configuration, the more special ones last."""
    common = _with_prefix(given, f"{cluster}.cluster.")
    found = {name: value for name, value in common.items() if name in CLIENT_SETTINGS}
    found |= _with_prefix(given, f"{kind}.")
    found |= _with_prefix(given, f"{cluster}.{kind}.")
    if kind == "consumer":
        found["enable.auto.commit"] = "false"
        found.setdefault("auto.offset.reset", "earliest")
    return found


def _with_prefix(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in given.items()
        if name.startswith(prefix) and name != prefix
    }
