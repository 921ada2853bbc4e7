"""Transforms of headers: DropHeaders, HeaderFrom and InsertHeader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from odradek.core.connect.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    non_null,
    one_of,
)
from odradek.core.connect.data import Schema, Struct, struct_schema
from odradek.core.connect.errors import ConfigError, DataError
from odradek.core.connect.headers import parse_text
from odradek.core.connect.records import ConnectRecord, Header, Headers
from odradek.core.connect.transform import Transform
from odradek.core.connect.transforms.part import (
    PACKAGE,
    PartTransform,
    key_and_value,
    with_nulls,
)

RecordT = TypeVar("RecordT", bound=ConnectRecord)


class DropHeaders(Transform):
    """Drops headers by their keys."""

    java_name = PACKAGE + "DropHeaders"
    definitions = ConfigDef().define(
        "headers",
        ConfigType.LIST,
        importance=Importance.HIGH,
        documentation="The keys of the headers.",
        validator=non_null,
    )

    def __init__(self) -> None:
        self._keys: set[str] = set()

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Transform`."""
        return cls.definitions

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        self._keys = set(self.definitions.parse(config)["headers"])

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        kept = Headers(each for each in record.headers if each.key not in self._keys)
        return record.with_changes(headers=kept)


class InsertHeader(Transform):
    """Adds a header with a constant value."""

    java_name = PACKAGE + "InsertHeader"
    definitions = (
        ConfigDef()
        .define(
            "header",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The key of the header.",
        )
        .define(
            "value.literal",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The value; numbers, times and so on get their type.",
        )
    )

    def __init__(self) -> None:
        self._header = Header("", None, None)

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Transform`."""
        return cls.definitions

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        parsed = self.definitions.parse(config)
        self._header = Header(parsed["header"], *parse_text(parsed["value.literal"]))

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        return record.with_changes(headers=Headers([*record.headers, self._header]))


class HeaderFrom(PartTransform):
    """Copies or moves fields to headers."""

    purpose = "header from"
    definitions = with_nulls(
        ConfigDef()
        .define(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="The names of the fields.",
            validator=non_null,
        )
        .define(
            "headers",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="The keys of the headers, in the same order.",
            validator=non_null,
        )
        .define(
            "operation",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="move or copy.",
            validator=one_of("move", "copy"),
        )
    )

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        super().configure(config)
        if not self.settings["fields"]:
            raise ConfigError.of("fields", [], "Cannot be empty.")
        if len(self.settings["fields"]) != len(self.settings["headers"]):
            raise ConfigError(
                "'fields' config must have the same number of elements as 'headers' config."
            )

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        schema, value = self.part(record)
        headers = record.headers.copy()
        moves = self.settings["operation"] == "move"
        pairs = list(zip(self.settings["fields"], self.settings["headers"], strict=True))
        if schema is None:
            updated = dict(self.map_of(value))
            for name, key in pairs:
                headers.add(key, self.map_of(value).get(name))
                if moves:
                    updated.pop(name, None)
            return self.changed(record.with_changes(headers=headers), None, updated)
        given = self.struct_of(value)
        listed = list(headers)
        for name, key in pairs:
            field = given.schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            listed.append(Header(key, field.schema, self.value_of(given, field)))
        target: Schema = given.schema
        made: Struct = given
        if moves:
            kept = [f for f in given.schema.fields if f.name not in self.settings["fields"]]
            shape = struct_schema([(each.name, each.schema) for each in kept])
            target = replace(given.schema, fields=shape.fields, is_optional=False, default=None)
            made = Struct(target, {each.name: self.value_of(given, each) for each in kept})
        return self.changed(record.with_changes(headers=Headers(listed)), target, made)


HEADER_FROM = key_and_value(HeaderFrom)
