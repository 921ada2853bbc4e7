"""Creates the topics of a source (KIP-158): by the first group of settings whose patterns match."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odradek.client.admin.topics import NewTopic, create_topics, exists_already
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.core.connect.config_def import ConfigType, parse_value
from odradek.core.connect.connector_config import (
    CREATION_PREFIX,
    SOURCE_CONFIG,
    creates_topics,
    creation_groups,
    with_creation_groups,
)
from odradek.core.connect.errors import ConnectError
from odradek.java_regex.pattern import Pattern

log = logging.getLogger(__name__)


class _Group:
    def __init__(self, config: Mapping[str, str], alias: str) -> None:
        prefix = f"{CREATION_PREFIX}{alias}."
        own = {n.removeprefix(prefix): v for n, v in config.items() if n.startswith(prefix)}
        default = CREATION_PREFIX + "default."
        self._include = _patterns(own.pop("include", ".*" if alias == "default" else ""))
        self._exclude = _patterns(own.pop("exclude", ""))
        self._partitions = int(
            own.pop("partitions", "") or config.get(default + "partitions") or "-1"
        )
        self._replication = int(
            own.pop("replication.factor", "") or config.get(default + "replication.factor") or "-1"
        )
        self._configs = own

    def matches(self, topic: str) -> bool:
        return any(each.matches(topic) for each in self._include) and not any(
            each.matches(topic) for each in self._exclude
        )

    def new_topic(self, name: str) -> NewTopic:
        return NewTopic(name, self._partitions, self._replication, self._configs)


def _patterns(text: str) -> list[Pattern]:
    return [Pattern(each) for each in parse_value("", text, ConfigType.LIST)]


class TopicCreation:
    """Knows which topics of a task exist, and creates the others."""

    def __init__(self, cluster: Cluster, config: Mapping[str, str]) -> None:
        with_creation_groups(SOURCE_CONFIG, config).parse(config, lambda name: name)
        self._cluster = cluster
        self._groups = [_Group(config, alias) for alias in creation_groups(config)]
        self._known: set[str] = set()

    def ensure(self, topic: str) -> None:
        """Create a topic if it does not exist.

        Raises:
            ConnectError: it cannot be created.
        """
        if topic in self._known:
            return
        try:
            if topic not in self._cluster.refresh([topic]).topics:
                self._create(topic)
        except ClientError as error:
            raise ConnectError(f"Task failed to create new topic {topic}: {error}") from error
        self._known.add(topic)

    def _create(self, topic: str) -> None:
        group = next(each for each in self._groups if each.matches(topic))
        found = create_topics(self._cluster, [group.new_topic(topic)])[topic]
        if isinstance(found, ClientError) and not exists_already(found):
            raise ConnectError(
                f"Task failed to create new topic {topic}. Ensure that the task is authorized to "
                f"create topics or that the topic exists and restart the task: {found}"
            ) from found
        log.info("created topic %s", topic)

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()


def is_wanted(config: Mapping[str, str], *, is_enabled: bool) -> bool:
    """Return whether a source creates its topics by groups, and not the brokers by themselves."""
    return is_enabled and creates_topics(config)
