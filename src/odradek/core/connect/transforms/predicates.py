"""The predicates HasHeaderKey, RecordIsTombstone and TopicNameMatches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance, non_empty
from odradek.core.connect.errors import ConfigError
from odradek.core.connect.records import ConnectRecord
from odradek.core.connect.transform import Predicate
from odradek.java_regex.errors import PatternError
from odradek.java_regex.pattern import Pattern

_PACKAGE = "org.apache.kafka.connect.transforms.predicates."


class HasHeaderKey(Predicate):
    """Whether a record has a header with a key."""

    java_name = _PACKAGE + "HasHeaderKey"
    definitions = ConfigDef().define(
        "name",
        ConfigType.STRING,
        importance=Importance.MEDIUM,
        documentation="The key of the header.",
        validator=non_empty,
    )

    def __init__(self) -> None:
        self._key = ""

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Predicate`."""
        return cls.definitions

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Predicate`."""
        self._key = self.definitions.parse(config)["name"]

    def test(self, record: ConnectRecord) -> bool:
        """See `Predicate`."""
        return record.headers.last(self._key) is not None


class RecordIsTombstone(Predicate):
    """Whether the value of a record is null."""

    java_name = _PACKAGE + "RecordIsTombstone"

    def test(self, record: ConnectRecord) -> bool:
        """See `Predicate`."""
        return record.value is None


def _check(name: str, value: Any) -> None:
    try:
        Pattern(value)
    except (PatternError, TypeError):
        raise ConfigError.of(name, value, f"Invalid regex: {value}") from None


class TopicNameMatches(Predicate):
    """Whether the name of the topic matches a regular expression of Java."""

    java_name = _PACKAGE + "TopicNameMatches"
    definitions = ConfigDef().define(
        "pattern",
        ConfigType.STRING,
        importance=Importance.MEDIUM,
        documentation="The regular expression of Java for the whole name.",
        validator=_check,
    )

    def __init__(self) -> None:
        self._pattern = Pattern("")

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Predicate`."""
        return cls.definitions

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Predicate`."""
        self._pattern = Pattern(self.definitions.parse(config)["pattern"])

    def test(self, record: ConnectRecord) -> bool:
        """See `Predicate`."""
        return self._pattern.matches(record.topic)
