"""How topics are called at the target (`ReplicationPolicy`).

`DefaultReplicationPolicy` puts the alias of the source before the name: `eu.orders`. So topics of several
clusters live in one, and clusters that copy each other's topics do not copy them back.
`IdentityReplicationPolicy` keeps the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

_HEARTBEATS = "heartbeats"


class ReplicationPolicy:
    """`DefaultReplicationPolicy`, and the base of others."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"

    def __init__(self, config: Mapping[str, str]) -> None:
        """Take the configuration of the connector."""
        self._separator = config.get("replication.policy.separator", ".")
        self._internal_separator = self._separator
        inner = config.get("replication.policy.internal.topic.separator.enabled", "true")
        if inner.lower() != "true":
            self._internal_separator = "."

    def remote_topic(self, source: str, topic: str) -> str:
        """Return the name at the target of a topic of a cluster."""
        return source + self._separator + topic

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic comes from; None if it is not a copy."""
        parts = topic.split(self._separator) if self._separator else list(topic)
        while parts and not parts[-1]:
            parts.pop()  # Java drops empty parts at the end
        return parts[0] if len(parts) >= 2 else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name that a copy has in the cluster it comes from; None if it is not a copy."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self._separator) :]

    def original_topic(self, topic: str) -> str:
        """Return the name that a topic had before the first copy."""
        while True:
            upstream = self.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return topic
            topic = upstream

    @property
    def heartbeats_topic(self) -> str:
        """The topic of heartbeats."""
        return _HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the topic of offset syncs of a flow from or to a cluster."""
        inner = self._internal_separator
        return f"mm2-offset-syncs{inner}{alias}{inner}internal"

    def checkpoints_topic(self, alias: str) -> str:
        """Return the topic of checkpoints of a flow from a cluster."""
        return alias + self._checkpoints_suffix()

    def _checkpoints_suffix(self) -> str:
        inner = self._internal_separator
        return f"{inner}checkpoints{inner}internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Return whether a topic has heartbeats, copied or not."""
        return self.original_topic(topic) == self.heartbeats_topic

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Return whether a topic has checkpoints."""
        return topic.endswith(self._checkpoints_suffix())

    def is_internal_topic(self, topic: str) -> bool:
        """Return whether a topic belongs to Kafka or to MirrorMaker, and is never copied."""
        if topic.startswith(("__", ".")):
            return True
        internal = topic.startswith("mm2") and topic.endswith(f"{self._internal_separator}internal")
        return internal or self.is_checkpoints_topic(topic)


class IdentityReplicationPolicy(ReplicationPolicy):
    """Keeps the names of topics, except those of heartbeats. Nothing prevents that clusters copy in circles."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__(config)
        self._source = config.get("source.cluster.alias")

    def remote_topic(self, source: str, topic: str) -> str:
        """See `ReplicationPolicy`."""
        return super().remote_topic(source, topic) if _is_heartbeat(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """Return the alias in the configuration: names do not say where topics come from."""
        return super().topic_source(topic) if _is_heartbeat(topic) else self._source

    def upstream_topic(self, topic: str) -> str | None:
        """See `ReplicationPolicy`."""
        return super().upstream_topic(topic) if _is_heartbeat(topic) else topic


def _is_heartbeat(topic: str) -> bool:
    return topic.endswith(_HEARTBEATS)


def is_cycle(policy: ReplicationPolicy, topic: str, target: str) -> bool:
    """Return whether a topic has been copied from the cluster that it would be copied to."""
    while True:
        source = policy.topic_source(topic)
        if source is None:
            return False
        if source == target:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream
