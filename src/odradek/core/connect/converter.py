"""What all converters are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance, one_of
from odradek.core.connect.data import Schema, SchemaAndValue


def converter_config() -> ConfigDef:
    """Return the definitions that all converters have."""
    return ConfigDef().define(
        "converter.type",
        ConfigType.STRING,
        importance=Importance.LOW,
        documentation="What the converter is used for: key, value or header.",
        validator=one_of("key", "value", "header"),
    )


class Converter:
    """Turns data of Connect into bytes and back."""

    java_name = ""
    """The name of Java's class, which configurations name."""
    version = ""
    is_for_headers = True
    """Whether configurations may name it as `header.converter`, too."""

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the definitions of the configuration."""
        return converter_config()

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        """Take the configuration; `is_key` says what the converter is used for.

        Raises:
            ConfigError: a value is invalid.
        """

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value.

        Raises:
            DataError: the value cannot be written.
        """
        raise NotImplementedError

    def to_connect(self, topic: str, value: bytes | None) -> SchemaAndValue:
        """Return the value of bytes.

        Raises:
            DataError: the bytes are not a value.
        """
        raise NotImplementedError

    def from_connect_header(
        self, topic: str, key: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        """Return the bytes of a header; by default as of a value."""
        return self.from_connect(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, value: bytes | None) -> SchemaAndValue:
        """Return the value of the bytes of a header; by default as of a value."""
        return self.to_connect(topic, value)

    def close(self) -> None:
        """Free what the converter holds."""

    def __repr__(self) -> str:
        return type(self).__name__
