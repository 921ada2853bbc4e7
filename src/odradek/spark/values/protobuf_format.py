"""Protobuf as a format of typed columns (`formats`)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import DataType

from odradek.client.serializers import protobuf_schema
from odradek.client.serializers.framing import index_prefixes
from odradek.client.serializers.protobuf_schema import ProtobufSchema, ProtobufSchemaError
from odradek.client.serializers.registry import PROTOBUF_TYPE, Registered
from odradek.spark.values.bulk import Decoder, Encoder
from odradek.spark.values.framing import FramedDecoder
from odradek.spark.values.protobuf import (
    IndexedDecoder,
    ProtobufDecoder,
    ProtobufEncoder,
)
from odradek.spark.values.protobuf_shapes import Structs, prepare
from odradek.spark.values.settings import ProtobufOptions, Typed


class ProtobufFormat:
    """See `formats.Format`."""

    kind = PROTOBUF_TYPE

    def given(self, typed: Typed) -> ProtobufSchema | None:
        """See `formats.Format`."""
        given = typed.schema
        if given is None:
            return None
        try:
            if protobuf_schema.is_text(given):
                return protobuf_schema.from_text(given, typed.message)
            return protobuf_schema.from_file(given, typed.message)
        except ProtobufSchemaError as error:
            raise _explained(typed, error) from None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.reason
            raise ValueError(
                f"{typed.option('Schema')} is neither a .proto text nor a file that can be read: "
                f"{reason}: {given}"
            ) from None

    def registered(self, typed: Typed, found: Registered) -> ProtobufSchema:
        """See `formats.Format`."""
        try:
            return _compiled(found, typed.message)
        except ProtobufSchemaError as error:
            raise _explained(typed, error) from None

    def made(self, typed: Typed, found: DataType) -> None:
        """Return nothing: the numbers of fields must not depend on their order in a frame."""

    def text(self, schema: ProtobufSchema) -> str:
        """See `formats.Format`."""
        if schema.text is None:
            raise ValueError(
                "a set of descriptors cannot be registered or looked up in the schema registry: "
                "give a .proto file, or omit the schema to use the latest of the subject"
            )
        return schema.text

    def type(self, typed: Typed, schema: ProtobufSchema) -> DataType:
        """See `formats.Format`."""
        return _shape(typed, schema).spark

    def check(self, typed: Typed, schema: ProtobufSchema, found: DataType) -> None:
        """See `formats.Format`."""
        _shape(typed, schema).check(found, typed.column)

    def decoder(self, typed: Typed, schema: ProtobufSchema, kind: pa.DataType) -> Decoder:
        """See `formats.Format`."""
        if typed.registry is None:
            return ProtobufDecoder(schema, typed.protobuf, kind)
        return RegisteredProtobuf(typed.registry, kind, schema, typed.protobuf)

    def encoder(self, typed: Typed, schema: ProtobufSchema, prefix: bytes) -> Encoder:
        """See `formats.Format`."""
        if prefix:
            prefix += index_prefixes(schema.indexes)[0]
        return ProtobufEncoder(typed.column, schema, typed.protobuf, prefix)


@dataclass(frozen=True)
class RegisteredProtobuf(FramedDecoder):
    """Decodes Protobuf of schemas in a registry with the schema of the column.

    Fields are found by their numbers, as Protobuf defines it.
    """

    schema: ProtobufSchema
    options: ProtobufOptions

    def decoder(self, written: Registered) -> Decoder:
        """Return the decoder of byte strings of a registered schema."""
        indexes = _compiled(written, self.schema.message).indexes
        return IndexedDecoder(ProtobufDecoder(self.schema, self.options, self.type), indexes)


def _compiled(found: Registered, message: str | None) -> ProtobufSchema:
    found.require(PROTOBUF_TYPE)
    return protobuf_schema.from_text(found.text, message, found.references)


def _shape(typed: Typed, schema: ProtobufSchema) -> Structs:
    try:
        return prepare(schema, typed.protobuf).shape
    except ProtobufSchemaError as error:
        raise _explained(typed, error) from None


def _explained(typed: Typed, error: ProtobufSchemaError) -> ValueError:
    advice = f" ({typed.option('Message')})" if "message" in str(error) else ""
    return ValueError(f"the schema of {typed.column}{advice}: {error}")
