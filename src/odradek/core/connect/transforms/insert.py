"""InsertField: adds fields with the topic, the partition, the offset, the time, or a constant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from odradek.core.connect import data
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance
from odradek.core.connect.data import Schema, Struct, struct_schema
from odradek.core.connect.errors import ConfigError, DataError
from odradek.core.connect.records import ConnectRecord, SinkRecord
from odradek.core.connect.transforms.part import PartTransform, key_and_value, with_nulls

RecordT = TypeVar("RecordT", bound=ConnectRecord)
_SCHEMAS = {
    "topic.field": data.STRING,
    "partition.field": data.INT32,
    "offset.field": data.INT64,
    "timestamp.field": data.TIMESTAMP,
    "static.field": data.STRING,
}


def _definitions() -> ConfigDef:
    config = ConfigDef()
    for name in (*_SCHEMAS, "static.value"):
        what = name.removesuffix(".field")
        text = f"The name of the field with the {what}; ! at the end makes it required."
        config.define(name, ConfigType.STRING, None, Importance.MEDIUM, text)
    return with_nulls(config)


class InsertField(PartTransform):
    """See the module."""

    purpose = "field insertion"
    definitions = _definitions()

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        super().configure(config)
        if not any(self.settings[each] for each in _SCHEMAS):
            raise ConfigError("No field insertion configured")
        if self.settings["static.field"] and self.settings["static.value"] is None:
            raise ConfigError.of(
                "static.value",
                None,
                f"No value specified for static field: {self.settings['static.field']}",
            )

    def _wanted(self, record: ConnectRecord, *, has_schema: bool) -> Iterator[tuple[str, str, Any]]:
        """Yield what to insert: the setting, its value, and the value of the field."""
        for setting in _SCHEMAS:
            name = self.settings[setting]
            if not name:
                continue
            value: Any = self.settings["static.value"]
            if setting == "topic.field":
                value = record.topic
            elif setting == "partition.field":
                value = record.partition
            elif setting == "offset.field":
                if not isinstance(record, SinkRecord):
                    raise DataError(
                        f"Only SinkRecord supported for [{self.purpose}], found: "
                        f"{type(record).__name__}"
                    )
                value = record.offset
            elif setting == "timestamp.field":
                value = record.timestamp
                if has_schema and value is not None:
                    value = data.ms_timestamp(value)
            yield setting, name, value

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        schema, value = self.part(record)
        if value is None:
            return record
        if schema is None:
            updated = dict(self.map_of(value))
            for _, name, found in self._wanted(record, has_schema=False):
                if found is not None:
                    updated[name.rstrip("?!")] = found
            return self.changed(record, None, updated)
        given = self.struct_of(value)
        wanted = list(self._wanted(record, has_schema=True))
        fields = [(each.name, each.schema) for each in given.schema.fields]
        fields += [(name.rstrip("?!"), _schema(setting, name)) for setting, name, _ in wanted]
        shape = struct_schema(fields)
        target = replace(given.schema, fields=shape.fields, is_optional=False, default=None)
        made = Struct(target)
        for field in given.schema.fields:
            made[field.name] = self.value_of(given, field)
        for _, name, found in wanted:
            if found is not None:
                made[name.rstrip("?!")] = found
        return self.changed(record, target, made)


def _schema(setting: str, name: str) -> Schema:
    schema = _SCHEMAS[setting]
    return schema if name.endswith("!") else schema.optional()


INSERT_FIELD = key_and_value(InsertField)
