"""What converters with a schema registry have in common: settings, schemas of values, errors.

A value is written with the id of its schema before it, as all of Confluent's serializers do. The schema is
made of the value's schema in Connect, and registered.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from odradek.client.errors import ClientError
from odradek.client.serializers.framing import split
from odradek.client.serializers.registered import Choice, Given, RegisteredFormat
from odradek.client.serializers.registry import (
    NotRegisteredError,
    Registered,
    UnreachableRegistryError,
)
from odradek.client.serializers.settings import RegistrySettings, parse_registry
from odradek.client.serializers.subjects import (
    Strategy,
    record_name,
    topic_name,
    topic_record_name,
)
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance
from odradek.core.connect.converter import Converter, converter_config
from odradek.core.connect.data import NULL, Schema, SchemaAndValue
from odradek.core.connect.errors import ConfigError, DataError, RetriableError

log = logging.getLogger(__name__)

_STRATEGIES: dict[str, Strategy] = {
    f"io.confluent.kafka.serializers.subject.{name}Strategy": strategy
    for name, strategy in (
        ("TopicName", topic_name),
        ("RecordName", record_name),
        ("TopicRecordName", topic_record_name),
    )
}
_TOPIC_NAME = next(iter(_STRATEGIES))
_OF_REGISTRY = (
    "schema.registry.url",
    "basic.auth.user.info",
    "bearer.auth.token",
    "schema.registry.timeout.ms",
)
_TLS = "schema.registry.ssl."
CACHED_MAX = 1_000


def _strategy(name: str) -> Strategy:
    try:
        return _STRATEGIES[name]
    except KeyError:
        raise LookupError(name) from None


def registry_config() -> ConfigDef:
    """Return the definitions that converters with a schema registry have."""
    config = converter_config()
    rows: tuple[tuple[str, ConfigType, Any, Importance, str], ...] = (
        ("schema.registry.url", ConfigType.LIST, [], Importance.HIGH, "The registry's addresses."),
        (
            "auto.register.schemas",
            ConfigType.BOOLEAN,
            True,
            Importance.MEDIUM,
            "Whether schemas are registered; otherwise they must be in the registry.",
        ),
        (
            "use.latest.version",
            ConfigType.BOOLEAN,
            False,
            Importance.LOW,
            "Whether values are written with the subject's latest schema.",
        ),
        ("use.schema.id", ConfigType.INT, -1, Importance.LOW, "The id of the schema to write."),
        (
            "latest.cache.ttl.sec",
            ConfigType.INT,
            -1,
            Importance.LOW,
            "After how long the latest schema is asked for again; -1: never.",
        ),
        (
            "normalize.schemas",
            ConfigType.BOOLEAN,
            False,
            Importance.MEDIUM,
            "Whether the registry normalizes schemas.",
        ),
        (
            "key.subject.name.strategy",
            ConfigType.STRING,
            _TOPIC_NAME,
            Importance.MEDIUM,
            "The names of subjects of keys.",
        ),
        (
            "value.subject.name.strategy",
            ConfigType.STRING,
            _TOPIC_NAME,
            Importance.MEDIUM,
            "The names of subjects of values.",
        ),
        (
            "basic.auth.credentials.source",
            ConfigType.STRING,
            "URL",
            Importance.MEDIUM,
            "Where user and password are: USER_INFO.",
        ),
        ("basic.auth.user.info", ConfigType.PASSWORD, "", Importance.MEDIUM, "USER:PASSWORD"),
        ("bearer.auth.token", ConfigType.PASSWORD, "", Importance.MEDIUM, "A token."),
    )
    for name, kind, default, importance, text in rows:
        config.define(name, kind, default, importance, text)
    return config


def registry_of(config: Mapping[str, Any]) -> RegistrySettings:
    """Return where the registry is.

    Raises:
        ConfigError: a setting is missing or malformed.
    """
    given = {
        name: value
        for name, value in config.items()
        if (name in _OF_REGISTRY and value) or name.startswith(_TLS)
    }
    if "schema.registry.url" not in given:
        raise ConfigError(
            'Missing required configuration "schema.registry.url" which has no default value.'
        )
    try:
        return parse_registry(given)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def choice_of(parsed: Mapping[str, Any], is_key: bool) -> Choice:
    """Return which schemas are written.

    Raises:
        ConfigError: the strategy is unknown.
    """
    name = f"{'key' if is_key else 'value'}.subject.name.strategy"
    try:
        strategy = _strategy(parsed[name])
    except LookupError:
        raise ConfigError.of(
            name, parsed[name], f"Class {parsed[name]} could not be found."
        ) from None
    wanted, ttl_s = parsed["use.schema.id"], parsed["latest.cache.ttl.sec"]
    return Choice(
        auto_register_schemas=parsed["auto.register.schemas"],
        normalize_schemas=parsed["normalize.schemas"],
        use_latest_version=parsed["use.latest.version"],
        use_schema_id=wanted if wanted >= 0 else None,
        latest_cache_ttl_s=ttl_s if ttl_s >= 0 else None,
        subject_name_strategy=strategy,
    )


class SchemaFormat(RegisteredFormat):
    """A serializer whose values are pairs of a schema of Connect and a value."""

    def __init__(self, settings: RegistrySettings, choice: Choice) -> None:
        super().__init__(settings, choice)
        self._texts: dict[Schema | None, Given] = {}
        self._versions: dict[tuple[str, Any], int | None] = {}

    @abstractmethod
    def make_given(self, schema: Schema | None) -> Given:
        """Return the schema for the registry.

        Raises:
            DataError: the format has no such schema.
        """

    @abstractmethod
    def name_of(self, written: Registered) -> str | None:
        """Return the name of the record in a schema, for subjects."""

    @abstractmethod
    def decode_version(
        self, data: bytes, start: int, written: Registered, version: int | None
    ) -> SchemaAndValue:
        """Return schema and value. `version` is that of the schema.

        Raises:
            SerializationError: the bytes do not fit.
            DataError: Connect has no such type.
        """

    def given(self, value: SchemaAndValue) -> Given:
        """See `RegisteredFormat`."""
        found = self._texts.get(value.schema)
        if found is None:
            if len(self._texts) >= CACHED_MAX:
                self._texts.clear()
            found = self._texts[value.schema] = self.make_given(value.schema)
        return found

    def decode(self, data: bytes, start: int, written: Registered) -> SchemaAndValue:
        """See `RegisteredFormat`."""
        return self.decode_version(data, start, written, None)

    def read(self, topic: str, data: bytes) -> SchemaAndValue:
        """Return schema and value. The version of the schema is that in the topic's subject.

        Raises:
            SerializationError: the bytes do not fit.
            RegistryError: the registry does not know the schema, or does not respond.
            DataError: Connect has no such type.
        """
        schema_id, start = split(data, (), is_key=self._is_key)
        written = self._checked(self.registry.by_id(schema_id))
        return self.decode_version(data, start, written, self._version(topic, written))

    def _version(self, topic: str, written: Registered) -> int | None:
        """Return the version of a schema in the subject of a topic; None if it is not in there."""
        if written.references:
            return None
        name = self.name_of(written)
        subject = self._choice.subject_name_strategy(topic, self._is_key, name)
        key = (subject, written.schema_id)
        if key not in self._versions:
            try:
                found = self.registry.version_of(subject, self.kind, written.text)
            except NotRegisteredError:
                found = None
            self._versions[key] = found
        return self._versions[key]


class RegistryConverter(Converter):
    """A converter with a schema registry."""

    is_for_headers = False
    format_name: ClassVar[str]
    """What the format is called in errors."""
    writes_null: ClassVar[bool] = False
    """Whether null with a schema is a value of the format. Otherwise the record has no value."""

    def __init__(self) -> None:
        self._format: SchemaFormat
        self._where = ""

    def make(
        self, settings: RegistrySettings, choice: Choice, parsed: Mapping[str, Any]
    ) -> SchemaFormat:
        """Make the serializer of values."""
        raise NotImplementedError

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        """See `Converter`."""
        given = {name: str(value) for name, value in config.items()}
        definition = self.config()
        parsed = definition.parse({"converter.type": "key" if is_key else "value", **given})
        settings = registry_of(given)
        made = self.make(settings, choice_of(parsed, is_key), parsed)
        self._format = made.for_keys() if is_key else made
        self._where = ", ".join(settings.urls)
        known = {*definition.keys, *_OF_REGISTRY}
        for name in given:
            if name not in known and not name.startswith(_TLS):
                log.info("the setting %s of the converter has no effect", name)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if value is None and (schema is None or (schema.is_optional and not self.writes_null)):
            return None
        try:
            return self._format.serialize(topic, SchemaAndValue(schema, value))
        except ClientError as error:
            what = f"Failed to serialize {self.format_name} data from topic {topic}"
            raise self._error(what, error) from error

    def to_connect(self, topic: str, value: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        if value is None:
            return NULL
        try:
            return self._format.read(topic, value)
        except ClientError as error:
            what = f"Failed to deserialize data for topic {topic} to {self.format_name}"
            raise self._error(what, error) from error

    def _error(self, what: str, error: ClientError) -> DataError | RetriableError:
        """Return an error of Connect. That the registry does not respond may pass."""
        text = f"{what} (schema registry {self._where}): {error}"
        if isinstance(error, UnreachableRegistryError):
            return RetriableError(text)
        return DataError(text)
