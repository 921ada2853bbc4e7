"""Applies settings that change while the node runs.

The classes are publishers: the node calls them with each metadata change (see
`odradek.broker.metadata.publisher`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from odradek.broker.broker import Broker
from odradek.broker.coordinator.coordinators import Coordinators
from odradek.broker.settings.dynamic_config import DynamicConfig
from odradek.config.alter import setting_of
from odradek.config.broker_config import BrokerConfig
from odradek.config.topic_config import TopicConfig
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError

log = logging.getLogger("odradek.node")


class TopicConfigs:
    """A `Publisher` that returns the settings of topics in the newest metadata image."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.image = EMPTY_IMAGE

    def load(self, image: MetadataImage) -> None:
        """Keep the first image."""
        self.image = image

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Keep the new image."""
        self.image = image

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed broker settings, which are the defaults of topics."""
        self.config = config

    def __call__(self, topic: str) -> TopicConfig:
        """Return the settings of a topic. Topics without settings of their own share one object."""
        overrides = self.image.configs.of(ResourceType.TOPIC, topic)
        return self.config.topic_config(overrides) if overrides else self.config.topic_defaults


class SettingsPublisher:
    """A `Publisher` that applies changed settings. Install it after `TopicConfigs`."""

    def __init__(
        self,
        broker: Broker,
        dynamic: DynamicConfig,
        topic_configs: TopicConfigs,
    ) -> None:
        self._broker = broker
        self._dynamic = dynamic
        self._topic_configs = topic_configs
        self._listeners: list[Callable[[BrokerConfig], None]] = []

    def listen(self, on_config: Callable[[BrokerConfig], None]) -> None:
        """Call `on_config` whenever the broker's configuration has changed."""
        self._listeners.append(on_config)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply the settings that the change contains."""
        if not delta.configs.changed:
            return
        config = self._dynamic.of(image)
        if config is not self._broker.config:
            self._use(config)
        for resource, settings in delta.configs.changed.items():
            _warn_of(resource, settings or {})
            if resource.type == ResourceType.TOPIC:
                if resource.name in self._broker.replicas.by_name:  # a new topic has no logs yet
                    topic_config = self._topic_configs(resource.name)
                    self._broker.storage.logs.update_topic_config(resource.name, topic_config)
            elif resource.type == ResourceType.CLIENT_METRICS:
                self.configure_client_metrics(resource.name, dict(settings or {}))

    def _use(self, config: BrokerConfig) -> None:
        for problem in config.ignored:
            log.warning("a dynamic setting is ignored: %s", problem)
        self._broker.update_config(config)
        self._topic_configs.update_config(config)
        self._broker.storage.logs.update_all_configs(config)
        self._broker.coordinators.update_config(config)
        for on_config in self._listeners:
            on_config(config)

    def load(self, image: MetadataImage) -> None:
        """Apply all dynamic settings of the first image."""
        config = self._dynamic.of(image)
        if config is not self._broker.config:
            self._use(config)
        for resource, settings in image.configs.by_resource.items():
            if resource.type == ResourceType.CLIENT_METRICS:
                self.configure_client_metrics(resource.name, dict(settings))

    def configure_client_metrics(self, name: str, settings: dict[str, str]) -> None:
        """Apply a changed subscription of client metrics."""
        try:
            self._broker.client_telemetry.machine.configure(name, settings)
        except ApiError as error:
            log.warning("the client metrics subscription %s is ignored: %s", name, error.message)


class ControllerSettings:
    """A `Publisher` that applies changed settings to a node that is only a controller."""

    def __init__(self, config: BrokerConfig, *listeners: Callable[[BrokerConfig], None]) -> None:
        """The listeners are called with each new configuration."""
        self._config = config
        self._dynamic = DynamicConfig(config)
        self._listeners = listeners

    def load(self, image: MetadataImage) -> None:
        """Apply all dynamic settings of the first image."""
        config = self._dynamic.of(image)
        if config is self._config:
            return
        self._config = config
        for problem in config.ignored:
            log.warning("a dynamic setting is ignored: %s", problem)
        for on_config in self._listeners:
            on_config(config)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply the settings that the change contains."""
        if delta.configs.changed:
            self.load(image)


def _warn_of(resource: ConfigResource, settings: Mapping[str, str]) -> None:
    """Log a warning for each setting of a resource that has no effect."""
    kind = ResourceType(resource.type)
    for name, text in settings.items():
        setting = setting_of(kind, name)
        shortcoming = None if setting is None else setting.shortcoming(text)
        if shortcoming is not None:
            whose = f"{kind.name.lower()} {resource.name or '(default of all)'}"
            log.warning("%s: %s", whose, shortcoming)


class CoordinatorPublisher:
    """A `Publisher` that passes metadata changes to the coordinators.

    Install it before the replicas, which notify the coordinators of elections.
    """

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Pass the change to all coordinators."""
        self._coordinators.on_metadata(delta, image)

    def load(self, image: MetadataImage) -> None:
        """Pass the first image to all coordinators."""
        self.publish(MetadataDelta(image), image)
