"""Which topics, groups and settings of topics are copied: lists of Java's regular expressions.

The expressions of a list are joined with `|`, and must match the whole name. An empty list matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from odradek.core.connect.config_def import ConfigType, parse_value
from odradek.core.connect.errors import ConfigError
from odradek.java_regex.errors import PatternError
from odradek.java_regex.pattern import Pattern

_PACKAGE = "org.apache.kafka.connect.mirror."
TOPICS = [".*"]
TOPICS_EXCLUDE = [r"mm2.*\.internal", r".*\.replica", "__.*"]
GROUPS = [".*"]
GROUPS_EXCLUDE = ["console-consumer-.*", "connect-.*", "__.*"]
PROPERTIES_EXCLUDE = [
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
]


def listed(config: Mapping[str, str], name: str, default: Sequence[str]) -> list[str]:
    """Return a list of the configuration."""
    if name not in config:
        return list(default)
    found: list[str] = parse_value(name, config[name], ConfigType.LIST)
    return found


class Names:
    """Names that some expressions match."""

    def __init__(self, config: Mapping[str, str], name: str, default: Sequence[str]) -> None:
        """Read the list `name` of the configuration.

        Raises:
            ConfigError: it is not a regular expression.
        """
        patterns = listed(config, name, default)
        self._everything = patterns == [".*"]
        text = "|".join(patterns)
        try:
            self._pattern = Pattern(text) if patterns else None
        except PatternError as error:
            raise ConfigError.of(name, text, str(error)) from None

    def __contains__(self, name: str) -> bool:
        if self._everything and name.isprintable():  # a dot matches no end of a line
            return True
        return self._pattern is not None and self._pattern.matches(name)


class _Selection:
    """Accepts names that one list has and another one has not."""

    _included: ClassVar[tuple[str, Sequence[str]]]
    """The setting with the names, and its default."""
    _excluded: ClassVar[tuple[str, Sequence[str]]]
    """The setting with the names that are left out, and its default."""

    def __init__(self, config: Mapping[str, str]) -> None:
        """Take the configuration of the connector.

        Raises:
            ConfigError: a list is not of regular expressions.
        """
        self._wanted = Names(config, *self._included)
        self._unwanted = Names(config, *self._excluded)

    def accepts(self, name: str) -> bool:
        """Return whether a topic or group is selected."""
        return name in self._wanted and name not in self._unwanted


class TopicFilter(_Selection):
    """Selects the topics that are copied (`DefaultTopicFilter`)."""

    java_name: ClassVar[str] = _PACKAGE + "DefaultTopicFilter"
    _included = ("topics", TOPICS)
    _excluded = ("topics.exclude", TOPICS_EXCLUDE)


class GroupFilter(_Selection):
    """Selects the groups that checkpoints are made for (`DefaultGroupFilter`)."""

    java_name: ClassVar[str] = _PACKAGE + "DefaultGroupFilter"
    _included = ("groups", GROUPS)
    _excluded = ("groups.exclude", GROUPS_EXCLUDE)


class PropertyFilter:
    """Selects settings of topics (`DefaultConfigPropertyFilter`)."""

    java_name: ClassVar[str] = _PACKAGE + "DefaultConfigPropertyFilter"

    def __init__(self, config: Mapping[str, str]) -> None:
        """Take the configuration of the connector.

        Raises:
            ConfigError: a list is not of regular expressions.
        """
        self._excluded = Names(config, "config.properties.exclude", PROPERTIES_EXCLUDE)
        self.copies_defaults = config.get("use.defaults.from", "target").strip() == "source"
        """Whether a setting that has its default at the source gets this value at the target."""

    def accepts(self, name: str) -> bool:
        """Return whether a setting is copied."""
        return name not in self._excluded
