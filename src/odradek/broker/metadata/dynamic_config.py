"""A node's configuration under the dynamic settings that the metadata holds."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.image import MetadataImage
from odradek.model.config_resource import ResourceType


class DynamicConfig:
    """Gives the configuration that goes with an image; made again only when it changes.

    The object returned is the same as long as no setting of this broker or of all brokers
    changes, so `is` tells whether there is something to reconfigure.
    """

    def __init__(self, base: BrokerConfig) -> None:
        """`base` is what the configuration file and the command line say."""
        self.base = base
        self._cluster_default: Mapping[str, str] = {}
        self._per_broker: Mapping[str, str] = {}
        self._config = base

    @property
    def newest(self) -> BrokerConfig:
        """The configuration under the last image that was asked for."""
        return self._config

    def of(self, image: MetadataImage) -> BrokerConfig:
        """The configuration under the image's settings; see `BrokerConfig.ignored` for those that
        cannot be applied."""
        cluster_default = image.configs.of(ResourceType.BROKER, "")
        per_broker = image.configs.of(ResourceType.BROKER, str(self.base.node_id))
        if cluster_default is not self._cluster_default or per_broker is not self._per_broker:
            self._cluster_default, self._per_broker = cluster_default, per_broker
            self._config = self.base.with_dynamic(cluster_default, per_broker)
        return self._config
