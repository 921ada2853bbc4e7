"""JSON with a schema of JSON Schema in a registry: Confluent's `JsonSchemaConverter` in Java."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from odradek.client.errors import SerializationError
from odradek.client.serializers.registered import Choice, Given
from odradek.client.serializers.registry import JSON_TYPE, Reference, Registered
from odradek.client.serializers.settings import RegistrySettings
from odradek.connect.registry_converter import (
    CACHED_MAX,
    RegistryConverter,
    SchemaFormat,
    registry_config,
)
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance, one_of_in_any_case
from odradek.core.connect.data import Schema, SchemaAndValue
from odradek.core.connect.errors import DataError
from odradek.core.connect.java_text import json_bytes
from odradek.core.connect.json_schemas import connect_schema, from_json, json_schema, to_json

CONFIG = (
    registry_config()
    .define(
        "decimal.format",
        ConfigType.STRING,
        "BASE64",
        Importance.LOW,
        "How decimals are written: as BASE64 or NUMERIC.",
        validator=one_of_in_any_case("BASE64", "NUMERIC"),
    )
    .define("schemas.cache.size", ConfigType.INT, CACHED_MAX, Importance.LOW, "It has no effect.")
)


class _Format(SchemaFormat):
    """See `SchemaFormat`. Values are not checked against the schema of JSON Schema."""

    kind = JSON_TYPE

    def __init__(self, settings: RegistrySettings, choice: Choice, *, is_numeric: bool) -> None:
        super().__init__(settings, choice)
        self._is_numeric = is_numeric
        self._schemas = lru_cache(CACHED_MAX)(_connect_schema)

    def make_given(self, schema: Schema | None) -> Given:
        """See `SchemaFormat`."""
        made = json_schema(schema, is_numeric=self._is_numeric)
        if made is None:
            raise DataError("a value without a schema cannot be written with JSON Schema")
        return Given(json_bytes(made).decode(), made.get("title"))

    def name_of(self, written: Registered) -> str | None:
        """See `SchemaFormat`."""
        found = json.loads(written.text)
        title = found.get("title") if isinstance(found, dict) else None
        return None if title is None else str(title)

    def encode(self, value: SchemaAndValue, found: Registered | None, start: bytes) -> bytes:
        """See `RegisteredFormat`."""
        del found
        return start + json_bytes(to_json(*value, is_numeric=self._is_numeric))

    def decode_version(
        self, data: bytes, start: int, written: Registered, version: int | None
    ) -> SchemaAndValue:
        """See `SchemaFormat`."""
        try:
            row = json.loads(data[start:], parse_float=Decimal)
        except ValueError as error:
            raise SerializationError(f"it is no JSON: {error}") from error
        schema = self._schemas(written.text, written.references, version)
        return SchemaAndValue(schema, from_json(schema, row))


def _connect_schema(text: str, references: tuple[Reference, ...], version: int | None) -> Schema:
    others = {name: json.loads(other) for name, other in references}
    return connect_schema(json.loads(text), others, version)


class JsonSchemaConverter(RegistryConverter):
    """See the module."""

    java_name = "io.confluent.connect.json.JsonSchemaConverter"
    format_name = "JSON Schema"
    writes_null = True

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Converter`."""
        return CONFIG

    def make(
        self, settings: RegistrySettings, choice: Choice, parsed: Mapping[str, Any]
    ) -> SchemaFormat:
        """See `RegistryConverter`."""
        is_numeric = parsed["decimal.format"].upper() == "NUMERIC"
        return _Format(settings, choice, is_numeric=is_numeric)
