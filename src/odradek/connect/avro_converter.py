"""Avro with a schema registry: the converter that Confluent's `AvroConverter` is in Java.

The schema of each value is made of its schema in Connect, and registered. What is written before each value
is the id of the schema, as all of Confluent's serializers do.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

from odradek.client.errors import ClientError, SerializationError
from odradek.client.serializers.extra import needs
from odradek.client.serializers.framing import split
from odradek.client.serializers.registered import Choice, Given, RegisteredFormat
from odradek.client.serializers.registry import (
    AVRO_TYPE,
    NotRegisteredError,
    Registered,
    RegistryError,
)
from odradek.client.serializers.settings import RegistrySettings, parse_registry
from odradek.client.serializers.subjects import (
    Strategy,
    record_name,
    topic_name,
    topic_record_name,
)
from odradek.core.connect.avro_reading import connect_schema
from odradek.core.connect.avro_schemas import Options, avro_schema
from odradek.core.connect.avro_values import from_avro, to_avro, without_logical_types
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
_CACHED_MAX = 1_000


def _strategy(name: str) -> Strategy:
    try:
        return _STRATEGIES[name]
    except KeyError:
        raise LookupError(name) from None


def _find_strategy(name: str) -> Any:
    _strategy(name)
    return name


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


CONFIG = (
    registry_config()
    .define(
        "enhanced.avro.schema.support",
        ConfigType.BOOLEAN,
        False,
        Importance.MEDIUM,
        "Whether enums stay enums, and branches of unions have full names.",
    )
    .define(
        "connect.meta.data",
        ConfigType.BOOLEAN,
        True,
        Importance.LOW,
        "Whether names, versions and so on of Connect are in the schemas.",
    )
    .define(
        "schemas.cache.config", ConfigType.INT, _CACHED_MAX, Importance.LOW, "It has no effect."
    )
)


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


class _Format(RegisteredFormat):
    """The serializer: its values are pairs of a schema of Connect and a value."""

    kind = AVRO_TYPE

    def __init__(self, settings: RegistrySettings, choice: Choice, options: Options) -> None:
        super().__init__(settings, choice)
        with needs("Avro"):
            from odradek.client.serializers import avro_library

            self._library = avro_library
        self._options = options
        self._texts: dict[Schema | None, Given] = {}
        self._parsed = lru_cache(_CACHED_MAX)(self._parse)
        self._schemas = lru_cache(_CACHED_MAX)(self._connect_schema)
        self._versions: dict[tuple[str, Any], int | None] = {}

    def given(self, value: SchemaAndValue) -> Given:
        """See `RegisteredFormat`."""
        found = self._texts.get(value.schema)
        if found is None:
            made = avro_schema(value.schema, self._options)
            name = None
            if isinstance(made, dict) and "name" in made:
                namespace = made.get("namespace")
                name = f"{namespace}.{made['name']}" if namespace else made["name"]
            text = json.dumps(made, separators=(",", ":"), ensure_ascii=False)
            if len(self._texts) >= _CACHED_MAX:
                self._texts.clear()
            found = self._texts[value.schema] = Given(text, name)
        return found

    def _parse(self, text: str, references: tuple[str, ...]) -> Any:
        """Return a schema for the library, without logical types."""
        import fastavro

        complete = self._library.complete(text, references)
        plain = without_logical_types(_without_marks(complete))
        return fastavro.parse_schema(plain)

    def _connect_schema(
        self, text: str, references: tuple[str, ...], version: int | None
    ) -> Schema | None:
        if references:
            found = _without_marks(self._library.complete(text, references))
        else:
            found = text.strip() if text.strip() in self._library.PRIMITIVES else json.loads(text)
        return connect_schema(found, self._options, version)

    def encode(self, value: SchemaAndValue, found: Registered | None, start: bytes) -> bytes:
        """See `RegisteredFormat`."""
        import fastavro

        text, references = (
            (self.given(value).text, ())
            if found is None
            else (found.text, tuple(each for _, each in found.references))
        )
        out = BytesIO(start)
        out.seek(0, 2)
        row = to_avro(value.schema, value.value)
        try:
            fastavro.schemaless_writer(out, self._parsed(text, references), row)
        except (*self._library.UNENCODABLE, self._library.AvroSchemaError) as error:
            raise SerializationError(
                f"the value does not fit its schema of Avro: {error}"
            ) from error
        return out.getvalue()

    def decode(self, data: bytes, start: int, written: Registered) -> SchemaAndValue:
        """See `RegisteredFormat`."""
        return self._decoded(data, start, written, None)

    def read(self, topic: str, data: bytes) -> SchemaAndValue:
        """Return schema and value. The version of the schema is that of the topic's subject.

        Raises:
            SerializationError: the bytes do not fit.
            RegistryError: the registry does not know the schema, or does not respond.
        """
        schema_id, start = split(data, (), is_key=self._is_key)
        written = self._checked(self.registry.by_id(schema_id))
        return self._decoded(data, start, written, self._version(topic, written))

    def _decoded(
        self, data: bytes, start: int, written: Registered, version: int | None
    ) -> SchemaAndValue:
        import fastavro

        references = tuple(each for _, each in written.references)
        stream = BytesIO(data)
        stream.seek(start)
        try:
            parsed = self._parsed(written.text, references)
            row = fastavro.schemaless_reader(stream, parsed, None, return_named_type=True)
        except self._library.AvroSchemaError as error:
            raise SerializationError(str(error)) from error
        except EOFError as error:
            raise SerializationError("it ends too early for its schema of Avro") from error
        except self._library.UNDECODABLE as error:
            raise SerializationError(f"it does not fit its schema of Avro: {error!r}") from error
        schema = self._schemas(written.text, references, version)
        return SchemaAndValue(schema, from_avro(schema, row))

    def _version(self, topic: str, written: Registered) -> int | None:
        """Return the version of a schema in the subject of a topic; None if it is not in there."""
        if written.references:
            return None
        try:
            name = json.loads(written.text)
        except ValueError:
            name = None
        full = None
        if isinstance(name, dict) and "name" in name:
            space = name.get("namespace")
            full = f"{space}.{name['name']}" if space else name["name"]
        subject = self._choice.subject_name_strategy(topic, self._is_key, full)
        key = (subject, written.schema_id)
        if key not in self._versions:
            try:
                found = self.registry.version_of(subject, self.kind, written.text)
            except NotRegisteredError:
                found = None
            self._versions[key] = found
        return self._versions[key]


def _without_marks(avro: Any) -> Any:
    """Return a schema without what the library adds to it."""
    if isinstance(avro, list):
        return [_without_marks(each) for each in avro]
    if not isinstance(avro, dict):
        return avro
    return {
        name: [_without_marks(each) for each in value]
        if name == "fields"
        else _without_marks(value)
        if name in ("type", "items", "values")
        else value
        for name, value in avro.items()
        if not name.startswith("__")
    }


class AvroConverter(Converter):
    """See the module."""

    java_name = "io.confluent.connect.avro.AvroConverter"
    is_for_headers = False

    def __init__(self) -> None:
        self._format: _Format
        self._where = ""

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Converter`."""
        return CONFIG

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        """See `Converter`."""
        given = {name: str(value) for name, value in config.items()}
        parsed = CONFIG.parse({"converter.type": "key" if is_key else "value", **given})
        settings = registry_of(given)
        options = Options(parsed["enhanced.avro.schema.support"], parsed["connect.meta.data"])
        made = _Format(settings, choice_of(parsed, is_key), options)
        self._format = made.for_keys() if is_key else made
        self._where = ", ".join(settings.urls)
        known = {*CONFIG.keys, *_OF_REGISTRY}
        for name in given:
            if name not in known and not name.startswith(_TLS):
                log.info("the setting %s of the converter has no effect", name)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if value is None and (schema is None or schema.is_optional):
            return None
        what = f"Failed to serialize Avro data from topic {topic} (schema registry {self._where})"
        try:
            return self._format.serialize(topic, SchemaAndValue(schema, value))
        except ClientError as error:
            raise _error(what, error) from error

    def to_connect(self, topic: str, value: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        if value is None:
            return NULL
        what = (
            f"Failed to deserialize data for topic {topic} to Avro (schema registry {self._where})"
        )
        try:
            return self._format.read(topic, value)
        except ClientError as error:
            raise _error(what, error) from error


def _error(what: str, error: ClientError) -> DataError | RetriableError:
    """Return an error of Connect. That the registry does not respond may pass."""
    text = f"{what}: {error}"
    if isinstance(error, RegistryError) and "does not respond" in str(error):
        return RetriableError(text)
    return DataError(text)
