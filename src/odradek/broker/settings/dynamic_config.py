"""A node's configuration with the dynamic settings from the metadata."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.image import MetadataImage
from odradek.model.config_resource import ResourceType


class DynamicConfig:
    """Returns the configuration for an image.

    The configuration is computed again only when a setting of this broker or of all brokers has
    changed. Otherwise the same object is returned, so that callers can detect changes with `is`.
    """

    def __init__(self, base: BrokerConfig) -> None:
        """`base` is the configuration from the file and the command line."""
        self.base = base
        self._cluster_default: Mapping[str, str] = {}
        self._per_broker: Mapping[str, str] = {}
        self._config = base

    @property
    def newest(self) -> BrokerConfig:
        """The configuration for the last image passed to `of`."""
        return self._config

    def of(self, image: MetadataImage) -> BrokerConfig:
        """Return the configuration with the image's settings.

        `BrokerConfig.ignored` lists the settings that cannot be applied.
        """
        cluster_default = image.configs.of(ResourceType.BROKER, "")
        per_broker = image.configs.of(ResourceType.BROKER, str(self.base.node_id))
        if cluster_default is not self._cluster_default or per_broker is not self._per_broker:
            self._cluster_default, self._per_broker = cluster_default, per_broker
            self._config = self.base.with_dynamic(cluster_default, per_broker)
        return self._config
