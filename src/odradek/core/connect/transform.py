"""What transforms and predicates are, and how a chain of them is configured and run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from odradek.core.connect.config_def import ConfigDef, ConfigType, parse_value
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.plugins import PluginKind, Plugins, UnknownPluginError
from odradek.core.connect.records import ConnectRecord

RecordT = TypeVar("RecordT", bound=ConnectRecord)


class Transform:
    """Changes a record, or drops it."""

    java_name = ""
    version = ""

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the definitions of the configuration."""
        return ConfigDef()

    def configure(self, config: Mapping[str, Any]) -> None:
        """Take the configuration.

        Raises:
            ConfigError: a value is missing or invalid.
        """

    def apply(self, record: RecordT) -> RecordT | None:
        """Return the changed record; None drops it.

        Raises:
            DataError: the record does not have what the transform needs.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Free what the transform holds."""


class Predicate:
    """Decides whether a transform is applied to a record."""

    java_name = ""
    version = ""

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the definitions of the configuration."""
        return ConfigDef()

    def configure(self, config: Mapping[str, Any]) -> None:
        """Take the configuration.

        Raises:
            ConfigError: a value is missing or invalid.
        """

    def test(self, record: ConnectRecord) -> bool:
        """Return whether the record has the property."""
        raise NotImplementedError

    def close(self) -> None:
        """Free what the predicate holds."""


class Stage:
    """A transform, with the predicate that it depends on."""

    def __init__(self, transform: Transform, predicate: Predicate | None, is_negated: bool) -> None:
        self.transform = transform
        self._predicate = predicate
        self._is_negated = is_negated

    def apply(self, record: RecordT) -> RecordT | None:
        """Return the record, changed if the predicate says so."""
        if self._predicate is not None and self._predicate.test(record) == self._is_negated:
            return record
        return self.transform.apply(record)

    def close(self) -> None:
        """Free what the stage holds."""
        self.transform.close()
        if self._predicate is not None:
            self._predicate.close()


class Chain:
    """The transforms of a connector, in order."""

    def __init__(self, stages: list[Stage]) -> None:
        self._stages = stages

    def __bool__(self) -> bool:
        return bool(self._stages)

    def apply(self, record: RecordT) -> RecordT | None:
        """Return the changed record; None if a transform dropped it."""
        current: RecordT | None = record
        for stage in self._stages:
            if current is None:
                return None
            current = stage.apply(current)
        return current

    def close(self) -> None:
        """Free what the transforms hold."""
        for each in self._stages:
            each.close()


def with_prefix(config: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the values whose names begin with a prefix, without the prefix."""
    return {
        name.removeprefix(prefix): value
        for name, value in config.items()
        if name.startswith(prefix) and len(name) > len(prefix)
    }


def chain_of(config: Mapping[str, str], plugins: Plugins) -> Chain:
    """Make the transforms that a connector's configuration names.

    Raises:
        ConnectError: a class is unknown, or a configuration is invalid.
    """
    stages = []
    for alias in parse_value("transforms", config.get("transforms", ""), ConfigType.LIST):
        own = with_prefix(config, f"transforms.{alias}.")
        transform: Transform = _made(plugins, own.pop("type", ""), PluginKind.TRANSFORMATION)
        own.pop("plugin.version", None)
        predicate_alias = own.pop("predicate", None)
        is_negated = str(own.pop("negate", "false")).strip().lower() == "true"
        transform.configure(own)
        predicate: Predicate | None = None
        if predicate_alias is not None:
            of_predicate = with_prefix(config, f"predicates.{predicate_alias}.")
            predicate = _made(plugins, of_predicate.pop("type", ""), PluginKind.PREDICATE)
            predicate.configure(of_predicate)
        stages.append(Stage(transform, predicate, is_negated))
    return Chain(stages)


def _made(plugins: Plugins, name: str, kind: PluginKind) -> Any:
    try:
        return plugins.find(name, kind).made()
    except UnknownPluginError:
        raise ConnectError(f"Class {name} could not be found.") from None
