"""Avro as a format of typed columns (`formats`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import DataType

from odradek.client.serializers.avro_library import AvroSchemaError
from odradek.client.serializers.registry import AVRO_TYPE, Registered
from odradek.spark.values import avro_schema
from odradek.spark.values.avro import AvroDecoder, AvroEncoder, AvroText
from odradek.spark.values.avro_shapes import Shape
from odradek.spark.values.bulk import Decoder, Encoder
from odradek.spark.values.framing import FramedDecoder
from odradek.spark.values.settings import Typed

INLINE = ("{", "[", '"')
"""How a schema of Avro begins. Other texts are names of types, or paths."""


class AvroFormat:
    """See `formats.Format`."""

    kind = AVRO_TYPE

    def given(self, typed: Typed) -> AvroText | None:
        """See `formats.Format`."""
        given = typed.schema
        if given is None:
            return None
        if given.startswith(INLINE) or given in avro_schema.PRIMITIVES:
            return AvroText(given)
        try:
            return AvroText(Path(given).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.reason
            raise ValueError(
                f"{typed.option('Schema')} is neither a schema of Avro in JSON nor a file that can "
                f"be read: {reason}: {given}"
            ) from None

    def registered(self, typed: Typed, found: Registered) -> AvroText:
        """See `formats.Format`."""
        del typed
        return _text_of(found)

    def made(self, typed: Typed, found: DataType) -> AvroText:
        """See `formats.Format`."""
        del typed
        return AvroText(avro_schema.schema_of(found))

    def text(self, schema: AvroText) -> str:
        """See `formats.Format`."""
        return schema.text

    def type(self, typed: Typed, schema: AvroText) -> DataType:
        """See `formats.Format`."""
        return _shape(typed, schema).spark

    def check(self, typed: Typed, schema: AvroText, found: DataType) -> None:
        """See `formats.Format`."""
        _shape(typed, schema).check(found, typed.column)

    def decoder(self, typed: Typed, schema: AvroText, kind: pa.DataType) -> Decoder:
        """See `formats.Format`."""
        if typed.registry is None:
            return AvroDecoder(schema, kind)
        return RegisteredAvro(typed.registry, kind, schema)

    def encoder(self, typed: Typed, schema: AvroText, prefix: bytes) -> Encoder:
        """See `formats.Format`."""
        return AvroEncoder(typed.column, schema, prefix)


@dataclass(frozen=True)
class RegisteredAvro(FramedDecoder):
    """Decodes Avro of schemas in a registry, as Avro resolves them to the schema of the column."""

    schema: AvroText

    def decoder(self, written: Registered) -> Decoder:
        """Return the decoder of byte strings of a registered schema."""
        text = _text_of(written)
        text.shape  # noqa: B018  (an error in it is one of the schema, not of values)
        return AvroDecoder(self.schema, self.type, None if text == self.schema else text)


def _text_of(found: Registered) -> AvroText:
    found.require(AVRO_TYPE)
    return AvroText(found.text, tuple(text for _, text in found.references))


def _shape(typed: Typed, schema: AvroText) -> Shape:
    try:
        return schema.shape
    except AvroSchemaError as error:
        raise ValueError(f"the schema of {typed.column}: {error}") from None
