"""Finds the schema of a typed column, and makes its decoder or encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from odradek.spark.values import avro_schema, framing
from odradek.spark.values.avro import AvroDecoder, AvroEncoder, AvroText
from odradek.spark.values.avro_shapes import Shape
from odradek.spark.values.bulk import Decoder, Encoder
from odradek.spark.values.framing import FramedDecoder
from odradek.spark.values.registry import AVRO_TYPE, NotRegisteredError, Registered, Registry
from odradek.spark.values.settings import RegistrySettings, Typed

INLINE = ("{", "[", '"')
"""How a schema of Avro begins. Other texts are names of types, or paths."""


def arrow_type(spark: DataType) -> pa.DataType:
    """Return the type of a column in batches for Spark."""
    fields = StructType([StructField("column", spark)])
    return to_arrow_schema(fields, timezone="UTC").field(0).type


def column_type(typed: Typed) -> DataType:
    """Return the type of an Avro column in Spark.

    Raises:
        ValueError: the schema is wrong.
        ClientError: the registry does not respond, or has no schema.
    """
    return _shape_type(typed, _given_schema(typed) or _registered_schema(typed))


def decoder(typed: Typed, spark: DataType) -> Decoder:
    """Return the decoder of an Avro column that has a type in Spark.

    Raises:
        ValueError: the schema is wrong, or has changed since Spark has asked for the type.
        ClientError: the registry does not respond, or has no schema.
    """
    schema = _given_schema(typed) or _registered_schema(typed)
    if _shape_type(typed, schema) != spark:
        raise ValueError(
            f"the schema of {typed.column} has changed while the query was planned: run it again"
        )
    kind = arrow_type(spark)
    if typed.registry is None:
        return AvroDecoder(schema, kind)
    return RegisteredAvro(typed.registry, kind, schema)


@dataclass(frozen=True)
class RegisteredAvro(FramedDecoder):
    """Decodes Avro of schemas in a registry, as Avro resolves them to the schema of the column."""

    schema: AvroText

    def decoder(self, written: Registered) -> Decoder:
        """Return the decoder of byte strings of a registered schema."""
        text = AvroText(_text_of(written), written.references)
        text.shape  # noqa: B018  (an error in it is one of the schema, not of values)
        return AvroDecoder(self.schema, self.type, None if text == self.schema else text)


def check(typed: Typed, found: DataType) -> None:
    """Check that a column of a frame can be written, as far as that is known without the registry.

    Raises:
        ValueError: the schema is wrong, or the column does not fit it.
    """
    schema = _given_schema(typed)
    if schema is not None:
        _shape(typed, schema).check(found, typed.column)


def encoder(typed: Typed, found: DataType) -> Encoder:
    """Return the encoder of a column of a frame. Register its schema, if that is wanted.

    Raises:
        ValueError: the schema is wrong, or the column does not fit it.
        ClientError: the registry does not respond, or does not accept the schema.
    """
    schema, prefix = _given_schema(typed), b""
    if typed.registry is not None:
        schema, schema_id = _written(typed, typed.registry, schema, found)
        prefix = framing.prefix(schema_id)
    assert schema is not None, "the options were checked"
    _shape(typed, schema).check(found, typed.column)
    return AvroEncoder(typed.column, schema, prefix)


def _written(
    typed: Typed, settings: RegistrySettings, given: AvroText | None, found: DataType
) -> tuple[AvroText, int]:
    """Return the schema with which a column is written, and its id.

    It is the given schema. Without one, it is the latest of the subject. If there is none, the type
    of the column gives the schema.
    """
    registry, subject = Registry(settings), typed.subject
    assert subject is not None, "the options were checked"
    if given is None:
        try:
            latest = registry.latest(subject)
        except NotRegisteredError:
            if not typed.registers:
                raise
            given = AvroText(avro_schema.schema_of(found))
        else:
            return AvroText(_text_of(latest), latest.references), latest.schema_id
    _shape(typed, given).check(found, typed.column)
    add = registry.register if typed.registers else registry.registered
    return given, add(subject, AVRO_TYPE, given.text)


def _given_schema(typed: Typed) -> AvroText | None:
    """Return the schema in the options: inline, or in a file.

    Raises:
        ValueError: there is no such file.
    """
    given = typed.schema
    if given is None:
        return None
    if given.startswith(INLINE) or given in avro_schema.PRIMITIVES:
        return AvroText(given)
    try:
        return AvroText(Path(given).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"{typed.option('Schema')} is neither a schema of Avro in JSON nor a file that can be "
            f"read: {error.strerror}: {given}"
        ) from None


def _registered_schema(typed: Typed) -> AvroText:
    assert typed.registry is not None, "the options were checked"
    assert typed.subject is not None, "the options were checked"
    latest = Registry(typed.registry).latest(typed.subject)
    return AvroText(_text_of(latest), latest.references)


def _text_of(registered: Registered) -> str:
    if registered.kind != AVRO_TYPE:
        raise ValueError(f"the schema is of type {registered.kind}, not {AVRO_TYPE}")
    return registered.text


def _shape(typed: Typed, schema: AvroText) -> Shape:
    try:
        return schema.shape
    except avro_schema.AvroSchemaError as error:
        raise ValueError(f"the schema of {typed.column}: {error}") from None


def _shape_type(typed: Typed, schema: AvroText) -> DataType:
    return _shape(typed, schema).spark
