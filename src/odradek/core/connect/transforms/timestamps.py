"""TimestampConverter: changes how a time is represented."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from odradek.core.connect import data
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance, one_of
from odradek.core.connect.data import Schema, Struct, Type, struct_schema
from odradek.core.connect.errors import ConfigError, DataError
from odradek.core.connect.records import ConnectRecord
from odradek.core.connect.simple_date import SimpleDate
from odradek.core.connect.transforms.part import PartTransform, key_and_value, with_nulls

RecordT = TypeVar("RecordT", bound=ConnectRecord)
_SCHEMAS = {
    "string": data.STRING,
    "unix": data.INT64,
    "Date": data.DATE,
    "Time": data.TIME,
    "Timestamp": data.TIMESTAMP,
}
_UNITS_IN_NS = {
    "seconds": 1_000_000_000,
    "milliseconds": 1_000_000,
    "microseconds": 1_000,
    "nanoseconds": 1,
}
_MS = 1_000_000
_LOGICAL = (data.DATE_NAME, data.TIME_NAME, data.TIMESTAMP_NAME)
_PLAIN = (Type.STRING, Type.INT64)


class TimestampConverter(PartTransform):
    """See the module."""

    purpose = "converting timestamp formats"
    definitions = with_nulls(
        ConfigDef()
        .define(
            "field",
            ConfigType.STRING,
            "",
            Importance.HIGH,
            "The field with the time; empty if the whole value is a time.",
        )
        .define(
            "target.type",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="What the time becomes: string, unix, Date, Time or Timestamp.",
            validator=one_of(*_SCHEMAS),
        )
        .define(
            "format",
            ConfigType.STRING,
            "",
            Importance.MEDIUM,
            "A pattern of Java's SimpleDateFormat for texts; times are in UTC.",
        )
        .define(
            "unix.precision",
            ConfigType.STRING,
            "milliseconds",
            Importance.LOW,
            "The unit of numbers since 1970.",
            validator=one_of("nanoseconds", "microseconds", "milliseconds", "seconds"),
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self._format: SimpleDate | None = None

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        super().configure(config)
        pattern = self.settings["format"]
        if self.settings["target.type"] == "string" and not pattern.strip():
            raise ConfigError(
                "TimestampConverter requires format option to be specified when using string timestamps"
            )
        try:
            self._format = SimpleDate(pattern) if pattern.strip() else None
        except ConfigError:
            raise ConfigError(
                "TimestampConverter requires a SimpleDateFormat-compatible pattern for string "
                f"timestamps: {pattern}"
            ) from None

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        schema, value = self.part(record)
        name, target = self.settings["field"], _SCHEMAS[self.settings["target.type"]]
        if schema is None:
            if not name:
                return self.changed(record, None, self._converted(None, value))
            if value is None:
                return record
            updated = dict(self.map_of(value))
            updated[name] = self._converted(None, updated.get(name))
            return self.changed(record, None, updated)
        if not name:
            shape = target.optional() if schema.is_optional else target
            return self.changed(record, shape, self._converted(schema, value))
        if schema.type != Type.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        shape = struct_schema(
            [
                (f.name, _changed(f.schema, target) if f.name == name else f.schema)
                for f in schema.fields
            ]
        )
        made_schema = replace(schema, fields=shape.fields, default=None)
        if value is None:
            return self.changed(record, made_schema, None)
        given = self.struct_of(value)
        made = Struct(made_schema)
        for field in given.schema.fields:
            found = self.value_of(given, field)
            made[field.name] = self._converted(field.schema, found) if field.name == name else found
        return self.changed(record, made_schema, made)

    def _converted(self, schema: Schema | None, value: Any) -> Any:
        if schema is not None and schema.name not in _LOGICAL and schema.type not in _PLAIN:
            raise DataError(
                f"Schema {data.schema_text(schema)} does not correspond to a known timestamp type "
                "format"
            )
        return None if value is None else self._written(self._moment(value))

    def _moment(self, value: Any) -> datetime.datetime:
        match value:
            case datetime.datetime():
                return value
            case datetime.date():
                return datetime.datetime.combine(value, datetime.time(), data.UTC)
            case datetime.time():
                return datetime.datetime.combine(datetime.date(1970, 1, 1), value, data.UTC)
            case bool():
                raise DataError("TimestampConverter does not support bool objects as timestamps")
            case int():
                unit = _UNITS_IN_NS[self.settings["unix.precision"]]
                total = value * unit
                ms = total // _MS if total >= 0 else -(-total // _MS)
                return data.ms_timestamp(ms)
            case str():
                if self._format is None:
                    raise DataError("a text needs the option format")
                return self._format.parse(value)
            case _:
                raise DataError(
                    f"TimestampConverter does not support {type(value).__name__} objects as timestamps"
                )

    def _written(self, moment: datetime.datetime) -> Any:
        match self.settings["target.type"]:
            case "string":
                assert self._format is not None, "checked in configure"
                return self._format.format(moment)
            case "unix":
                unit = _UNITS_IN_NS[self.settings["unix.precision"]]
                total = data.timestamp_ms(moment) * _MS
                return total // unit if total >= 0 else -(-total // unit)
            case "Date":
                return moment.date()
            case "Time":
                return data.ms_time(data.timestamp_ms(moment) % 86_400_000)
            case _:
                return moment


def _changed(before: Schema, target: Schema) -> Schema:
    return target.optional() if before.is_optional else target


TIMESTAMP_CONVERTER = key_and_value(TimestampConverter)
