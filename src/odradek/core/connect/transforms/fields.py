"""Transforms of fields: ExtractField, Flatten, HoistField, MaskField and ReplaceField."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from odradek.core.connect.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    non_empty_list,
    one_of_in_any_case,
)
from odradek.core.connect.data import Schema, Struct, Type, struct_schema
from odradek.core.connect.errors import ConfigError, ConnectError, DataError
from odradek.core.connect.records import ConnectRecord
from odradek.core.connect.transforms.field_path import parse_path
from odradek.core.connect.transforms.part import PartTransform, key_and_value, with_nulls

RecordT = TypeVar("RecordT", bound=ConnectRecord)


class ExtractField(PartTransform):
    """Takes one field, and drops the others."""

    purpose = "field extraction"
    definitions = with_nulls(
        ConfigDef().define(
            "field",
            ConfigType.STRING,
            importance=Importance.MEDIUM,
            documentation="The name of the field; with V2 a path such as a.b.",
        )
    ).define(
        "field.syntax.version",
        ConfigType.STRING,
        "V1",
        Importance.HIGH,
        "V2 allows paths to fields of fields.",
        validator=one_of_in_any_case("V1", "V2"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._path: list[str] = []

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        super().configure(config)
        name = self.settings["field"]
        is_path = self.settings["field.syntax.version"].upper() == "V2"
        self._path = parse_path(name) if is_path else [name]

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        schema, value = self.part(record)
        if schema is None:
            found = value
            for name in self._path:
                found = None if found is None else self.map_of(found).get(name)
            return self.changed(record, None, found)
        current: Any = None if value is None else self.struct_of(value)
        for name in self._path:
            field = schema.field(name)
            if field is None:
                raise ConnectError(f"Unknown field: {self.settings['field']}")
            current = None if current is None else self.value_of(current, field)
            schema = field.schema
        return self.changed(record, schema, current)


class HoistField(PartTransform):
    """Makes the value a field of a new struct or map."""

    definitions = ConfigDef().define(
        "field",
        ConfigType.STRING,
        importance=Importance.MEDIUM,
        documentation="The name of the field.",
    )

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        schema, value = self.part(record)
        name = self.settings["field"]
        if schema is None:
            return self.changed(record, None, {name: value})
        made = struct_schema([(name, schema)])
        return self.changed(record, made, Struct(made, {name: value}))


class Flatten(PartTransform):
    """Makes fields of fields fields of the value; their names are joined."""

    purpose = "flattening"
    definitions = ConfigDef().define(
        "delimiter",
        ConfigType.STRING,
        ".",
        Importance.MEDIUM,
        "What is between the names.",
    )

    def __init__(self) -> None:
        super().__init__()
        self._schemas: dict[Schema, Schema] = {}

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        schema, value = self.part(record)
        if value is None:
            return record
        if schema is None:
            return self.changed(record, None, dict(self._pairs(self.map_of(value), "")))
        given = self.struct_of(value)
        target = self._schemas.get(schema)
        if target is None:
            fields = list(self._fields(schema, "", schema.is_optional, schema.default))
            shape = struct_schema(fields)
            target = replace(schema, fields=shape.fields, is_optional=False, default=None)
            self._schemas[schema] = target
        made = Struct(target)
        self._fill(given, "", made)
        return self.changed(record, target, made)

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self.settings['delimiter']}{name}" if prefix else name

    def _pairs(self, given: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, value in given.items():
            name = self._name(prefix, key)
            if isinstance(value, dict):
                yield from self._pairs(value, name)
            elif isinstance(value, Struct):
                raise DataError(
                    f"Flatten transformation does not support {type(value).__name__} for record "
                    f"without schemas (for field {name})."
                )
            else:
                yield name, value

    def _fields(
        self, schema: Schema, prefix: str, is_optional: bool, default: Any
    ) -> Iterator[tuple[str, Schema]]:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            can_be_null = is_optional or field.schema.is_optional
            own = field.schema.default
            if own is None and isinstance(default, Struct):
                own = default[field.name]
            if field.schema.type == Type.STRUCT:
                yield from self._fields(field.schema, name, can_be_null, own)
            elif field.schema.type == Type.MAP:
                raise DataError(
                    "Flatten transformation does not support MAP for record with schemas (for field "
                    f"{name})."
                )
            else:
                yield name, replace(field.schema, is_optional=can_be_null, default=own)

    def _fill(self, given: Struct | None, prefix: str, made: Struct) -> None:
        if given is None:
            return
        for field in given.schema.fields:
            name = self._name(prefix, field.name)
            if field.schema.type == Type.STRUCT:
                self._fill(given[field.name], name, made)
            else:
                made[name] = given[field.name]


_EMPTY: tuple[tuple[type, Any], ...] = (
    (bool, False),
    (int, 0),
    (float, 0.0),
    (str, ""),
    (Decimal, Decimal(0)),
    (datetime.datetime, datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
    (datetime.date, datetime.date(1970, 1, 1)),
    (datetime.time, datetime.time()),
)


class MaskField(PartTransform):
    """Replaces fields by empty values, or by a replacement."""

    purpose = "mask fields"
    definitions = with_nulls(
        ConfigDef()
        .define(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="The names of the fields.",
            validator=non_empty_list,
        )
        .define(
            "replacement",
            ConfigType.STRING,
            None,
            Importance.LOW,
            "What replaces numbers and texts; by default 0 and the empty text.",
        )
    )

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        schema, value = self.part(record)
        names = self.settings["fields"]
        if schema is None:
            given = self.map_of(value)
            masked = {name: self._masked(given.get(name)) for name in names}
            return self.changed(record, None, {**given, **masked})
        struct = self.struct_of(value)
        made = Struct(struct.schema)
        for field in struct.schema.fields:
            found = self.value_of(struct, field)
            made[field.name] = self._masked(found) if field.name in names else found
        return self.changed(record, struct.schema, made)

    def _masked(self, value: Any) -> Any:
        if value is None:
            return None
        text = self.settings["replacement"]
        if text is None:
            if isinstance(value, list | dict):
                return type(value)()
            for kind, empty in _EMPTY:
                if isinstance(value, kind):
                    return empty
            raise DataError(f"Cannot mask value of type: {type(value).__name__}")
        for kind in (int, float, str, Decimal):
            if isinstance(value, kind) and not isinstance(value, bool):
                try:
                    return kind(text)
                except (ValueError, InvalidOperation):
                    raise DataError(f"Unable to convert {text} to number") from None
        raise DataError(
            f"Cannot mask value of type {type(value).__name__} with custom replacement."
        )


def _renames(mappings: list[str]) -> dict[str, str]:
    found = {}
    for each in mappings:
        before, colon, after = each.partition(":")
        if not colon or not after or ":" in after:
            raise ConfigError.of("renames", mappings, f"Invalid rename mapping: {each}")
        found[before] = after
    return found


def _check_renames(name: str, value: Any) -> None:
    _renames(value)


class ReplaceField(PartTransform):
    """Drops and renames fields."""

    purpose = "field replacement"
    definitions = with_nulls(
        ConfigDef()
        .define("exclude", ConfigType.LIST, [], Importance.MEDIUM, "The fields to drop.")
        .define("include", ConfigType.LIST, [], Importance.MEDIUM, "The only fields to keep.")
        .define(
            "renames",
            ConfigType.LIST,
            [],
            Importance.MEDIUM,
            "New names of fields, such as before:after.",
            validator=_check_renames,
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self._renames: dict[str, str] = {}

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        super().configure(config)
        self._renames = _renames(self.settings["renames"])

    def _keeps(self, name: str) -> bool:
        include = self.settings["include"]
        return name not in self.settings["exclude"] and (not include or name in include)

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        schema, value = self.part(record)
        if value is None:
            return record
        if schema is None:
            kept = {
                self._renames.get(name, name): each
                for name, each in self.map_of(value).items()
                if self._keeps(name)
            }
            return self.changed(record, None, kept)
        given = self.struct_of(value)
        fields = [each for each in given.schema.fields if self._keeps(each.name)]
        shape = struct_schema([(self._renames.get(f.name, f.name), f.schema) for f in fields])
        target = replace(given.schema, fields=shape.fields, is_optional=False, default=None)
        made = Struct(target)
        for field in fields:
            made[self._renames.get(field.name, field.name)] = self.value_of(given, field)
        return self.changed(record, target, made)


EXTRACT_FIELD, HOIST_FIELD = key_and_value(ExtractField), key_and_value(HoistField)
FLATTEN, MASK_FIELD = key_and_value(Flatten), key_and_value(MaskField)
REPLACE_FIELD = key_and_value(ReplaceField)
