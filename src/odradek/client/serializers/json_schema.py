"""JSON with a schema of JSON Schema in a registry.

As with Confluent's serializer for Java, values are not checked against the schema unless that is asked for
(`json.fail.invalid.schema` there); here that is not possible.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from odradek.client.errors import SerializationError
from odradek.client.serializers.registered import (
    Choice,
    Given,
    RegisteredFormat,
    references_of,
)
from odradek.client.serializers.registry import JSON_TYPE, Registered, SchemaReference
from odradek.client.serializers.settings import RegistrySettings
from odradek.client.serializers.simple import decode_json, encode_json


class JsonSchema(RegisteredFormat):
    """A serializer and deserializer for JSON with a schema. It does not check values."""

    kind = JSON_TYPE

    def __init__(
        self,
        registry: RegistrySettings | str | Mapping[str, object],
        schema: str | Mapping[str, Any] | None = None,
        *,
        references: Sequence[SchemaReference | tuple[str, str, int]] = (),
        to_dict: Callable[[Any], Any] | None = None,
        from_dict: Callable[[Any], Any] | None = None,
        **choice: Any,
    ) -> None:
        """Make a serializer.

        `registry` is a URL or settings (`settings.parse_registry`). `schema` is what is registered; it is
        not needed for reading. `references` are the schemas that it uses: name, subject and version.
        `to_dict` and `from_dict` convert objects to values of JSON, and back. `choice` has the fields of
        `registered.Choice`.

        Raises:
            ValueError: the schema is no JSON, or a setting is wrong.
        """
        super().__init__(registry, Choice(**choice))
        self._to_dict, self._from_dict = to_dict, from_dict
        self._given: Given | None = None
        if schema is not None:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            found = json.loads(text)
            title = found.get("title") if isinstance(found, dict) else None
            self._given = Given(text, title, references_of(references))

    def given(self, value: Any) -> Given:
        """See `RegisteredFormat`."""
        del value
        if self._given is not None:
            return self._given
        if self._choice.use_latest_version:
            return Given("", None)
        raise SerializationError(
            "the serializer has no schema", "Give one, or set use_latest_version=True."
        )

    def encode(self, value: Any, found: Registered | None, start: bytes) -> bytes:
        """See `RegisteredFormat`."""
        del found
        return start + encode_json(value if self._to_dict is None else self._to_dict(value))

    def decode(self, data: bytes, start: int, written: Registered) -> Any:
        """See `RegisteredFormat`."""
        del written
        value = decode_json(data[start:])
        return value if self._from_dict is None else self._from_dict(value)
