"""Transforms of the key or of the value of a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance
from odradek.core.connect.data import Field, Schema, Struct
from odradek.core.connect.errors import DataError
from odradek.core.connect.records import ConnectRecord
from odradek.core.connect.transform import Transform

RecordT = TypeVar("RecordT", bound=ConnectRecord)
PACKAGE = "org.apache.kafka.connect.transforms."


class PartTransform(Transform):
    """A transform of one part of the record."""

    is_key: ClassVar[bool] = False
    definitions: ClassVar[ConfigDef] = ConfigDef()
    purpose: ClassVar[str] = ""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        """The values of the configuration."""

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Transform`."""
        return cls.definitions

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        self.settings = self.definitions.parse(config)

    def part(self, record: ConnectRecord) -> tuple[Schema | None, Any]:
        """Return schema and value of the part."""
        if self.is_key:
            return record.key_schema, record.key
        return record.value_schema, record.value

    def changed(self, record: RecordT, schema: Schema | None, value: Any) -> RecordT:
        """Return the record with another part."""
        if self.is_key:
            return record.with_changes(key_schema=schema, key=value)
        return record.with_changes(value_schema=schema, value=value)

    def map_of(self, value: Any) -> dict[str, Any]:
        """Return a value without schema.

        Raises:
            DataError: it is not a map.
        """
        if not isinstance(value, dict):
            raise DataError(
                f"Only Map objects supported in absence of schema for [{self.purpose}], found: "
                f"{_name(value)}"
            )
        return value

    def struct_of(self, value: Any) -> Struct:
        """Return a value with schema.

        Raises:
            DataError: it is not a struct.
        """
        if not isinstance(value, Struct):
            raise DataError(
                f"Only Struct objects supported for [{self.purpose}], found: {_name(value)}"
            )
        return value

    def value_of(self, struct: Struct, field: Field) -> Any:
        """Return a field, with its default if `replace.null.with.default` says so."""
        if self.settings.get("replace.null.with.default", True):
            return struct[field.name]
        return struct.without_default(field.name)


def _name(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def with_nulls(config: ConfigDef) -> ConfigDef:
    """Add `replace.null.with.default`."""
    return config.define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        True,
        Importance.MEDIUM,
        "Whether a null in a field with a default is replaced by the default.",
    )


def key_and_value(made: type[PartTransform]) -> tuple[type[Any], type[Any]]:
    """Return the classes of a transform for keys and for values."""
    pair = [
        type(
            f"{made.__name__}{part}",
            (made,),
            {
                "is_key": part == "Key",
                "java_name": f"{PACKAGE}{made.__name__}${part}",
                "__doc__": made.__doc__,
                "__module__": made.__module__,
            },
        )
        for part in ("Key", "Value")
    ]
    return pair[0], pair[1]
