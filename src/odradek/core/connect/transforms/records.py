"""Transforms of whole records: Filter, RegexRouter, TimestampRouter, ValueToKey, SetSchemaMetadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from odradek.core.connect import data
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance, non_null
from odradek.core.connect.data import Struct, Type, struct_schema
from odradek.core.connect.errors import ConfigError, DataError
from odradek.core.connect.records import ConnectRecord
from odradek.core.connect.simple_date import SimpleDate
from odradek.core.connect.transform import Transform
from odradek.core.connect.transforms.part import (
    PACKAGE,
    PartTransform,
    key_and_value,
    with_nulls,
)
from odradek.java_regex.errors import PatternError
from odradek.java_regex.pattern import Pattern

RecordT = TypeVar("RecordT", bound=ConnectRecord)


class Filter(Transform):
    """Drops all records; it is used with a predicate."""

    java_name = PACKAGE + "Filter"

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        return None


def _check_pattern(name: str, value: Any) -> None:
    try:
        Pattern(value)
    except (PatternError, TypeError):
        raise ConfigError.of(name, value, f"Invalid regex: {value}") from None


class RegexRouter(Transform):
    """Changes the name of the topic, if it matches a regular expression of Java."""

    java_name = PACKAGE + "RegexRouter"
    definitions = (
        ConfigDef()
        .define(
            "regex",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The regular expression for the whole name.",
            validator=_check_pattern,
        )
        .define(
            "replacement",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="The new name, with groups such as $1.",
        )
    )

    def __init__(self) -> None:
        self._pattern = Pattern("")
        self._replacement = self._pattern.replacement("")

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Transform`."""
        return cls.definitions

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        parsed = self.definitions.parse(config)
        self._pattern = Pattern(parsed["regex"])
        try:
            self._replacement = self._pattern.replacement(parsed["replacement"])
        except PatternError as error:
            raise ConfigError.of("replacement", parsed["replacement"], str(error)) from None

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        if not self._pattern.matches(record.topic):
            return record
        topic = self._pattern.replace_first(record.topic, self._replacement)
        return record.with_changes(topic=topic)


class TimestampRouter(Transform):
    """Puts the time of the record into the name of the topic."""

    java_name = PACKAGE + "TimestampRouter"
    definitions = (
        ConfigDef()
        .define(
            "topic.format",
            ConfigType.STRING,
            "${topic}-${timestamp}",
            Importance.HIGH,
            "The new name, with ${topic} and ${timestamp}.",
        )
        .define(
            "timestamp.format",
            ConfigType.STRING,
            "yyyyMMdd",
            Importance.HIGH,
            "A pattern of Java's SimpleDateFormat; times are in UTC.",
        )
    )

    def __init__(self) -> None:
        self._format = ""
        self._time = SimpleDate("")

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Transform`."""
        return cls.definitions

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        parsed = self.definitions.parse(config)
        self._format = parsed["topic.format"]
        self._time = SimpleDate(parsed["timestamp.format"])

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        if record.timestamp is None:
            raise DataError(f"Timestamp missing on record: {record}")
        moment = self._time.format(data.ms_timestamp(record.timestamp))
        named = self._format.replace("${topic}", record.topic)
        return record.with_changes(topic=named.replace("${timestamp}", moment))


class ValueToKey(PartTransform):
    """Makes the key of fields of the value."""

    java_name = PACKAGE + "ValueToKey"
    purpose = "copying fields from value to key"
    definitions = with_nulls(
        ConfigDef().define(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="The names of the fields.",
            validator=non_null,
        )
    )

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        names = self.settings["fields"]
        if record.value_schema is None:
            given = self.map_of(record.value)
            return record.with_changes(
                key_schema=None, key={each: given.get(each) for each in names}
            )
        struct = self.struct_of(record.value)
        fields = []
        for name in names:
            field = struct.schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            fields.append(field)
        schema = struct_schema([(each.name, each.schema) for each in fields])
        made = Struct(schema, {each.name: self.value_of(struct, each) for each in fields})
        return record.with_changes(key_schema=schema, key=made)


class SetSchemaMetadata(PartTransform):
    """Sets name and version of the schema."""

    purpose = "updating schema metadata"
    definitions = with_nulls(
        ConfigDef()
        .define("schema.name", ConfigType.STRING, None, Importance.HIGH, "The new name.")
        .define("schema.version", ConfigType.INT, None, Importance.HIGH, "The new version.")
    )

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        super().configure(config)
        if self.settings["schema.name"] is None and self.settings["schema.version"] is None:
            raise ConfigError("Neither schema name nor version configured")

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        schema, value = self.part(record)
        if schema is None and value is None:
            return record
        if schema is None:
            raise DataError(f"Schema required for [{self.purpose}]")
        if schema.type != Type.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        name, version = self.settings["schema.name"], self.settings["schema.version"]
        target = replace(
            schema,
            name=schema.name if name is None else name,
            version=schema.version if version is None else version,
        )
        if isinstance(value, Struct):
            found = {each.name: self.value_of(value, each) for each in value.schema.fields}
            value = Struct(target, found)
        return self.changed(record, target, value)


SET_SCHEMA_METADATA = key_and_value(SetSchemaMetadata)
