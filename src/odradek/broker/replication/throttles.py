"""Applies the settings of replication throttles (KIP-73).

The limits are settings of brokers: `leader.replication.throttled.rate` and
`follower.replication.throttled.rate`. The throttled replicas are settings of topics. All of them
may change while the node runs. `kafka-reassign-partitions --throttle` sets them, and `--verify`
removes them when the reassignment is complete.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.core.replica.throttle import ReplicationThrottle
from odradek.model.config_resource import ResourceType

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
_NO_SETTINGS: Mapping[str, str] = {}


class Throttles:
    """The throttles of a broker; a `Publisher`. Use it only on the event loop's thread."""

    def __init__(self, config: BrokerConfig) -> None:
        windows = config.replication_quota_window_num
        window_ms = config.replication_quota_window_size_seconds * 1000
        self.leader = ReplicationThrottle(config.node_id, windows, window_ms)
        """What this broker sends to followers."""
        self.follower = ReplicationThrottle(config.node_id, windows, window_ms)
        """What this broker fetches from leaders."""
        self.update_config(config)

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed limits."""
        self.leader.set_limit(config.leader_replication_throttled_rate)
        self.follower.set_limit(config.follower_replication_throttled_rate)

    def load(self, image: MetadataImage) -> None:
        """Apply the settings of all topics."""
        for resource, settings in image.configs.by_resource.items():
            if resource.type == ResourceType.TOPIC:
                self._apply(resource.name, settings)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed settings of topics."""
        for resource, settings in delta.configs.changed.items():
            if resource.type == ResourceType.TOPIC:
                self._apply(resource.name, settings or _NO_SETTINGS)

    def _apply(self, topic: str, settings: Mapping[str, str]) -> None:
        for throttle, name in ((self.leader, LEADER_REPLICAS), (self.follower, FOLLOWER_REPLICAS)):
            entries = settings.get(name, "").split(",")
            throttle.set_replicas(topic, [each.strip() for each in entries])
