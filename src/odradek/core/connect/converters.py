"""The converters of single values: text, bytes, numbers, booleans. The bytes are Kafka's serializers'."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from odradek.core.connect import data
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance, Width
from odradek.core.connect.converter import Converter, converter_config
from odradek.core.connect.data import Schema, SchemaAndValue, Type, schema_text
from odradek.core.connect.errors import DataError
from odradek.core.connect.java_text import java_float, java_text


class StringConverter(Converter):
    """Writes any value as its text, and reads text (`StringConverter`)."""

    java_name = "org.apache.kafka.connect.storage.StringConverter"

    def __init__(self) -> None:
        self._encoding = "utf-8"

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Converter`."""
        return converter_config().define(
            "converter.encoding",
            ConfigType.STRING,
            "UTF-8",
            Importance.HIGH,
            "The name of the character set of strings.",
            width=Width.MEDIUM,
            display="Encoding",
        )

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        """See `Converter`."""
        kind = "key" if is_key else "value"
        found = config.get(f"{kind}.serializer.encoding") or config.get("serializer.encoding")
        self._encoding = str(found or config.get("converter.encoding") or "utf-8")

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if value is None:
            return None
        if schema is not None and schema.type == Type.FLOAT32:
            return java_float(value).encode()
        return java_text(value).encode(self._encoding, "replace")

    def to_connect(self, topic: str, value: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        text = None if value is None else bytes(value).decode(self._encoding, "replace")
        return SchemaAndValue(data.OPTIONAL_STRING, text)


class ByteArrayConverter(Converter):
    """Passes bytes on (`ByteArrayConverter`)."""

    java_name = "org.apache.kafka.connect.converters.ByteArrayConverter"

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if schema is not None and schema.type != Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise DataError(
                f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}"
            )
        return None if value is None else bytes(value)

    def to_connect(self, topic: str, value: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        return SchemaAndValue(data.OPTIONAL_BYTES, value)


class _Primitive(Converter):
    """A number or a boolean of a fixed size."""

    kind: Type
    code: str
    word: str

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See `Converter`."""
        if schema is not None and schema.type != self.kind:
            raise DataError(
                f"Invalid schema type for {type(self).__name__}: {schema_text(schema)}"
                if self.kind == Type.BOOLEAN
                else f"Failed to serialize to {self.word}: {schema_text(schema)}"
            )
        if value is None:
            return None
        try:
            if self.kind == Type.BOOLEAN and not isinstance(value, bool):
                raise struct.error("not a boolean")
            return struct.pack(self.code, value)
        except (struct.error, OverflowError) as error:
            raise DataError(f"Failed to serialize to {self.word}: ") from error

    def to_connect(self, topic: str, value: bytes | None) -> SchemaAndValue:
        """See `Converter`."""
        schema = Schema(self.kind, is_optional=True)
        if value is None:
            return SchemaAndValue(schema, None)
        if len(value) != struct.calcsize(self.code):
            raise DataError(f"Failed to deserialize {self.word}: ")
        if self.kind == Type.BOOLEAN and bytes(value) not in (b"\0", b"\1"):
            raise DataError(f"Failed to deserialize {self.word}: ")
        return SchemaAndValue(schema, struct.unpack(self.code, value)[0])


_PACKAGE = "org.apache.kafka.connect.converters."


class BooleanConverter(_Primitive):
    """One byte, 0 or 1 (`BooleanConverter`)."""

    kind, code, word, java_name = Type.BOOLEAN, ">?", "boolean", _PACKAGE + "BooleanConverter"


class ShortConverter(_Primitive):
    """Two bytes (`ShortConverter`)."""

    kind, code, word, java_name = Type.INT16, ">h", "short", _PACKAGE + "ShortConverter"


class IntegerConverter(_Primitive):
    """Four bytes (`IntegerConverter`)."""

    kind, code, word, java_name = Type.INT32, ">i", "integer", _PACKAGE + "IntegerConverter"


class LongConverter(_Primitive):
    """Eight bytes (`LongConverter`)."""

    kind, code, word, java_name = Type.INT64, ">q", "long", _PACKAGE + "LongConverter"


class FloatConverter(_Primitive):
    """Four bytes (`FloatConverter`)."""

    kind, code, word, java_name = Type.FLOAT32, ">f", "float", _PACKAGE + "FloatConverter"


class DoubleConverter(_Primitive):
    """Eight bytes (`DoubleConverter`)."""

    kind, code, word, java_name = Type.FLOAT64, ">d", "double", _PACKAGE + "DoubleConverter"
