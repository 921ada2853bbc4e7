"""Avro with a schema registry: the converter that Confluent's `AvroConverter` is in Java."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

from odradek.client.errors import SerializationError
from odradek.client.serializers.extra import needs
from odradek.client.serializers.registered import Choice, Given
from odradek.client.serializers.registry import AVRO_TYPE, Registered
from odradek.client.serializers.settings import RegistrySettings
from odradek.connect.registry_converter import (
    CACHED_MAX,
    RegistryConverter,
    SchemaFormat,
    registry_config,
)
from odradek.core.connect.avro_reading import connect_schema
from odradek.core.connect.avro_schemas import Options, avro_schema
from odradek.core.connect.avro_values import from_avro, to_avro, without_logical_types
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance
from odradek.core.connect.data import Schema, SchemaAndValue

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
    .define("schemas.cache.config", ConfigType.INT, CACHED_MAX, Importance.LOW, "It has no effect.")
)


class _Format(SchemaFormat):
    """See `SchemaFormat`. The library fastavro writes and reads."""

    kind = AVRO_TYPE

    def __init__(self, settings: RegistrySettings, choice: Choice, options: Options) -> None:
        super().__init__(settings, choice)
        with needs("Avro"):
            from odradek.client.serializers import avro_library

            self._library = avro_library
        self._options = options
        self._parsed = lru_cache(CACHED_MAX)(self._parse)
        self._schemas = lru_cache(CACHED_MAX)(self._connect_schema)

    def make_given(self, schema: Schema | None) -> Given:
        """See `SchemaFormat`."""
        made = avro_schema(schema, self._options)
        text = json.dumps(made, separators=(",", ":"), ensure_ascii=False)
        return Given(text, _name_of(made))

    def name_of(self, written: Registered) -> str | None:
        """See `SchemaFormat`."""
        return _name_of(self._loaded(written.text))

    def _loaded(self, text: str) -> Any:
        return text.strip() if text.strip() in self._library.PRIMITIVES else json.loads(text)

    def _parse(self, text: str, references: tuple[str, ...]) -> Any:
        """Return a schema for the library, without logical types."""
        import fastavro

        complete = self._library.complete(text, references)
        return fastavro.parse_schema(without_logical_types(_without_marks(complete)))

    def _connect_schema(
        self, text: str, references: tuple[str, ...], version: int | None
    ) -> Schema | None:
        if references:
            found = _without_marks(self._library.complete(text, references))
        else:
            found = self._loaded(text)
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

    def decode_version(
        self, data: bytes, start: int, written: Registered, version: int | None
    ) -> SchemaAndValue:
        """See `SchemaFormat`."""
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


def _name_of(avro: Any) -> str | None:
    if not isinstance(avro, dict) or "name" not in avro:
        return None
    namespace = avro.get("namespace")
    return f"{namespace}.{avro['name']}" if namespace else str(avro["name"])


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


class AvroConverter(RegistryConverter):
    """See the module."""

    java_name = "io.confluent.connect.avro.AvroConverter"
    format_name = "Avro"

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Converter`."""
        return CONFIG

    def make(
        self, settings: RegistrySettings, choice: Choice, parsed: Mapping[str, Any]
    ) -> SchemaFormat:
        """See `RegistryConverter`."""
        options = Options(parsed["enhanced.avro.schema.support"], parsed["connect.meta.data"])
        return _Format(settings, choice, options)
