"""Avro with a schema registry. The library fastavro converts values.

Values are those of the library: a dict for a record, `datetime`, `date`, `time`, `Decimal` and `UUID` for
logical types, and for a union of several records a pair of a full name and a dict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

from odradek.client.errors import SerializationError
from odradek.client.serializers.extra import needs
from odradek.client.serializers.registered import (
    Choice,
    Given,
    RegisteredFormat,
    references_of,
)
from odradek.client.serializers.registry import AVRO_TYPE, Registered, SchemaReference
from odradek.client.serializers.settings import RegistrySettings

with needs("Avro"):
    import fastavro

    from odradek.client.serializers import avro_library


class Avro(RegisteredFormat):
    """A serializer and deserializer for Avro."""

    kind = AVRO_TYPE

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

        `registry` is a URL or settings (`settings.parse_registry`). `schema` is a schema in JSON. It is
        written, and what is read is resolved to it; without it, values are read as they were written, and
        writing needs `use_latest_version` or `use_schema_id`. `references` are the schemas that `schema` uses:
        name, subject and version. `to_dict` and `from_dict` convert objects to what the library takes, and
        back. `choice` has the fields of `registered.Choice`.

        Raises:
            ValueError: the schema or a setting is wrong.
            ClientError: the registry does not have a reference.
        """
        super().__init__(registry, Choice(**choice))
        self._to_dict, self._from_dict = to_dict, from_dict
        self._given: Given | None = None
        self._schema: Any = None
        if schema is not None:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            used = references_of(references)
            texts = self.registry.texts_of(used) if used else ()
            self._schema = avro_library.complete(text, tuple(each for _, each in texts))
            self._given = Given(text, _name_of(self._schema), used)

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
        schema = self._schema if found is None else self._parsed(found)
        out = BytesIO()
        out.write(start)
        try:
            row = value if self._to_dict is None else self._to_dict(value)
            fastavro.schemaless_writer(out, schema, row)
        except avro_library.UNENCODABLE as error:
            raise SerializationError(
                f"the value does not fit its schema of Avro: {error}"
            ) from error
        return out.getvalue()

    def decode(self, data: bytes, start: int, written: Registered) -> Any:
        """See `RegisteredFormat`."""
        writer = self._parsed(written)
        stream = BytesIO(data)
        stream.seek(start)
        try:
            reader = None if self._schema is writer else self._schema
            row = fastavro.schemaless_reader(stream, writer, reader)
        except EOFError as error:
            raise SerializationError("it ends too early for its schema of Avro") from error
        except avro_library.UNDECODABLE as error:
            raise SerializationError(f"it does not fit its schema of Avro: {error!r}") from error
        left = len(data) - stream.tell()
        if left:
            raise SerializationError(f"{left} of its {len(data)} bytes follow the value")
        return row if self._from_dict is None else self._from_dict(row)

    def _parsed(self, found: Registered) -> Any:
        try:
            return avro_library.complete(found.text, tuple(text for _, text in found.references))
        except avro_library.AvroSchemaError as error:
            raise SerializationError(
                f"schema {found.schema_id} in the registry: {error}"
            ) from error


def _name_of(schema: Any) -> str | None:
    name = schema.get("name") if isinstance(schema, dict) else None
    return None if name is None else str(name)
