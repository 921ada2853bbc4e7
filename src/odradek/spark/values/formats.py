"""Finds the schema of a typed column, and makes its decoder or encoder."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from odradek.client.serializers import framing
from odradek.client.serializers.registry import NotRegisteredError, Registered, Registry
from odradek.client.serializers.settings import RegistrySettings
from odradek.config import extras
from odradek.spark.values.bulk import Decoder, Encoder
from odradek.spark.values.settings import AVRO, Typed


class Format(Protocol):
    """A format with schemas. `Any` is a schema of the format."""

    kind: str
    """The registry's name of the format."""

    def given(self, typed: Typed) -> Any:
        """Return the schema in the options, inline or in a file; None if there is none.

        Raises:
            ValueError: it is wrong.
        """
        ...

    def registered(self, typed: Typed, found: Registered) -> Any:
        """Return the schema of a column that is in a registry.

        Raises:
            ValueError: it is wrong.
        """
        ...

    def made(self, typed: Typed, found: DataType) -> Any:
        """Return a schema for a column of a frame; None if that is not possible."""
        ...

    def text(self, schema: Any) -> str:
        """Return what is registered for a schema.

        Raises:
            ValueError: it cannot be registered.
        """
        ...

    def type(self, typed: Typed, schema: Any) -> DataType:
        """Return the type of a column in Spark.

        Raises:
            ValueError: it has none.
        """
        ...

    def check(self, typed: Typed, schema: Any, found: DataType) -> None:
        """Check that a column of a frame can be written.

        Raises:
            ValueError: it cannot.
        """
        ...

    def decoder(self, typed: Typed, schema: Any, kind: pa.DataType) -> Decoder:
        """Return the decoder of a column. Byte strings have prefixes if there is a registry."""
        ...

    def encoder(self, typed: Typed, schema: Any, prefix: bytes) -> Encoder:
        """Return the encoder of a column. `prefix` is that of the registry, or empty."""
        ...


def _format(typed: Typed) -> Format:
    """Return the format of a column. Its library is imported now: most queries need none.

    Raises:
        ValueError: the library is not installed.
    """
    try:
        if typed.format == AVRO:
            from odradek.spark.values.avro_format import AvroFormat

            return AvroFormat()
        from odradek.spark.values.protobuf_format import ProtobufFormat
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{typed.option('Format')}={typed.format} needs the package {error.name}: "
            f"{extras.install(extras.SPARK)}"
        ) from None
    return ProtobufFormat()


def arrow_type(spark: DataType) -> pa.DataType:
    """Return the type of a column in batches for Spark."""
    fields = StructType([StructField("column", spark)])
    return to_arrow_schema(fields, timezone="UTC").field(0).type


def column_type(typed: Typed) -> DataType:
    """Return the type of a column in Spark.

    Raises:
        ValueError: the schema is wrong.
        ClientError: the registry does not respond, or has no schema.
    """
    return _format(typed).type(typed, _schema(typed))


def decoder(typed: Typed, spark: DataType) -> Decoder:
    """Return the decoder of a column that has a type in Spark.

    Raises:
        ValueError: the schema is wrong, or has changed since Spark has asked for the type.
        ClientError: the registry does not respond, or has no schema.
    """
    of_format, schema = _format(typed), _schema(typed)
    if of_format.type(typed, schema) != spark:
        raise ValueError(
            f"the schema of {typed.column} has changed while the query was planned: run it again"
        )
    return of_format.decoder(typed, schema, arrow_type(spark))


def check(typed: Typed, found: DataType) -> None:
    """Check that a column of a frame can be written, as far as that is known without the registry.

    Raises:
        ValueError: the schema is wrong, or the column does not fit it.
    """
    of_format = _format(typed)
    schema = of_format.given(typed)
    if schema is not None:
        of_format.check(typed, schema, found)


def encoder(typed: Typed, found: DataType) -> Encoder:
    """Return the encoder of a column of a frame. Register its schema, if that is wanted.

    Raises:
        ValueError: the schema is wrong, or the column does not fit it.
        ClientError: the registry does not respond, or does not accept the schema.
    """
    of_format = _format(typed)
    schema, prefix = of_format.given(typed), b""
    if typed.registry is not None:
        schema, schema_id = _written(typed, typed.registry, schema, found)
        prefix = framing.prefix(schema_id)
    of_format.check(typed, schema, found)
    return of_format.encoder(typed, schema, prefix)


def _schema(typed: Typed) -> Any:
    """Return the schema of a column that is read: the given one, or the latest of its subject."""
    of_format = _format(typed)
    given = of_format.given(typed)
    if given is not None:
        return given
    assert typed.registry is not None, "the options were checked"
    assert typed.subject is not None, "the options were checked"
    return of_format.registered(typed, Registry(typed.registry).latest(typed.subject))


def _written(
    typed: Typed, settings: RegistrySettings, given: Any, found: DataType
) -> tuple[Any, int]:
    """Return the schema with which a column is written, and its id.

    It is the given schema. Without one, it is the latest of the subject. If there is none, the type
    of the column gives the schema.
    """
    of_format = _format(typed)
    registry, subject = Registry(settings), typed.subject
    assert subject is not None, "the options were checked"
    if given is None:
        try:
            latest = registry.latest(subject)
        except NotRegisteredError:
            given = of_format.made(typed, found) if typed.registers else None
            if given is None:
                raise
        else:
            return of_format.registered(typed, latest), latest.schema_id
    of_format.check(typed, given, found)
    add = registry.register if typed.registers else registry.registered
    return given, add(subject, of_format.kind, of_format.text(given))
