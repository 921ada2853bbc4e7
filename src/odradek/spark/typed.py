"""Typed keys and values: their types in Spark, their decoders, and their encoders.

The task that reads or writes the records converts them, whole batches at once (`json_decoding`,
`json_encoding`, `values`). `Layout` says which columns of a read are typed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.spark import json_encoding, read_schema
from odradek.spark.json_decoding import JsonDecoder
from odradek.spark.options import Layout, WriteOptions
from odradek.spark.read_schema import UNDECODED_NAMES
from odradek.spark.values import formats
from odradek.spark.values.bulk import Decoded, Decoder, Encoder
from odradek.spark.values.settings import COLUMNS, JSON, Typed

SIMPLE_TYPES = (
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)
ZERO = b"\0"
"""With what byte strings begin that were written with a schema registry."""
SHOWN_BYTES = 80
"""The number of bytes of a value that an error message shows."""


class UndecodableValueError(ValueError):
    """A key or a value cannot be decoded."""


def schema(layout: Layout) -> StructType | str:
    """Return the columns of a read. If a part is DDL, the result is DDL, because only Spark parses it.

    Raises:
        ValueError: a schema is wrong.
        ClientError: the schema registry does not respond, or has no schema.
    """
    types: dict[str, DataType | str] = {
        field.name: field.dataType for field in read_schema.fields(layout)
    }
    for each in layout.typed:
        types[each.column] = _column_type(each)
    given = list(types.values())
    if any(isinstance(each, str) for each in given):
        ddl = {n: t if isinstance(t, str) else t.simpleString() for n, t in types.items()}
        return ", ".join(f"`{name}` {kind}" for name, kind in ddl.items())
    return StructType(
        [StructField(name, each) for name, each in types.items() if isinstance(each, DataType)]
    )


def _column_type(typed: Typed) -> DataType | str:
    """Return the type of a typed column, or its DDL."""
    given = typed.schema
    if typed.format != JSON:
        return formats.column_type(typed)
    assert given is not None, "the options were checked"
    if not given.lstrip().startswith("{"):
        return f"STRUCT<{given}>"
    try:
        return StructType.fromJson(json.loads(given))
    except (KeyError, TypeError, ValueError) as error:
        name = typed.option("Schema")
        raise ValueError(f"{name} is not the JSON of a StructType: {error}") from error


def check_type(row: DataType, name: str, *, writing: bool = False) -> None:
    """Check that values of a type can be written as JSON and read from it.

    Raises:
        ValueError: the type is not supported. Or a field is NOT NULL, and values are read.
    """
    if isinstance(row, StructType):
        for field in row.fields:
            if not field.nullable and not writing:
                raise ValueError(f"{name}.{field.name} is NOT NULL: fields of JSON may be missing")
            child = f"{name}.{field.name}"
            if isinstance(field.dataType, MapType) and name in COLUMNS and not writing:
                _check_map(field.dataType, child)
                continue
            check_type(field.dataType, child, writing=writing)
    elif isinstance(row, ArrayType):
        check_type(row.elementType, f"{name}[]", writing=writing)
    elif not isinstance(row, SIMPLE_TYPES) and (writing or not isinstance(row, DecimalType)):
        known = ", ".join(each.typeName() for each in SIMPLE_TYPES)
        more = "" if writing else ", decimal, and map in the outermost struct"
        raise ValueError(
            f"{name} is of type {row.simpleString()}; JSON values have {known}, array, struct{more}"
        )


def _check_map(kind: MapType, name: str) -> None:
    if not isinstance(kind.keyType, StringType):
        raise ValueError(f"{name} is of type {kind.simpleString()}: the keys of JSON are strings")
    if not isinstance(kind.valueType, (*SIMPLE_TYPES, DecimalType)):
        raise ValueError(
            f"{name} is of type {kind.simpleString()}: a map of JSON values cannot have structs, "
            "arrays or maps as values"
        )


class Undecoded(NamedTuple):
    """Rows whose key or value cannot be decoded, as they were read, and why not."""

    rows: pa.RecordBatch
    reasons: list[str]
    """One for each row."""


@dataclass(frozen=True)
class ColumnDecoder:
    """Decodes a column."""

    typed: Typed
    decoder: Decoder


@dataclass(frozen=True)
class RowDecoder:
    """Decodes the typed columns of batches. Tasks get a copy."""

    columns: tuple[ColumnDecoder, ...]
    keeps_undecoded: bool
    """Whether what cannot be decoded is null, and its bytes are in additional columns."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with decoded columns.

        Raises:
            UndecodableValueError: a row cannot be decoded, and `keeps_undecoded` is not set.
        """
        result = batch
        for each, decoded in self._decoded(batch):
            if decoded.reasons and not self.keeps_undecoded:
                row = min(decoded.reasons)
                raise UndecodableValueError(_message(batch, row, each.typed, decoded.reasons[row]))
            result = _with_column(result, each, decoded)
            if self.keeps_undecoded:
                name = each.typed.column
                nothing = pa.scalar(None, pa.binary())
                kept = pc.if_else(pa.array(decoded.bad), batch.column(name), nothing)
                result = result.append_column(pa.field(UNDECODED_NAMES[name], pa.binary()), kept)
        return result

    def separated(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Undecoded | None]:
        """Return the rows that can be decoded, with decoded columns, and the other rows."""
        result = batch
        bad = np.zeros(batch.num_rows, np.bool_)
        reasons: dict[int, str] = {}
        for each, decoded in self._decoded(batch):
            result = _with_column(result, each, decoded)
            bad |= decoded.bad
            for row, reason in decoded.reasons.items():
                text = f"{each.typed.column}: {reason}"
                reasons[row] = f"{reasons[row]}; {text}" if row in reasons else text
        if not reasons:
            return result, None
        rows = batch.filter(pa.array(bad))
        undecoded = Undecoded(rows, [reasons[row] for row in sorted(reasons)])
        return result.filter(pa.array(~bad)), undecoded

    def _decoded(self, batch: pa.RecordBatch) -> list[tuple[ColumnDecoder, Decoded]]:
        return [
            (each, each.decoder.decode(batch.column(each.typed.column))) for each in self.columns
        ]


def decoder(layout: Layout, parsed: StructType) -> RowDecoder:
    """Return the decoder of a read with typed columns. Spark has parsed its columns.

    Raises:
        ValueError: a schema is wrong, or a column cannot have this type.
        ClientError: the schema registry does not respond, or has no schema.
    """
    columns = tuple(
        ColumnDecoder(each, _decoder(each, parsed[each.column].dataType)) for each in layout.typed
    )
    return RowDecoder(columns, layout.keeps_undecoded)


def _decoder(typed: Typed, found: DataType) -> Decoder:
    if typed.format != JSON:
        return formats.decoder(typed, found)
    if not isinstance(found, StructType) or not found.fields:
        raise ValueError(f"{typed.option('Schema')} has no fields")
    check_type(found, typed.column)
    return JsonDecoder(formats.arrow_type(found), typed.number_us)


def _with_column(batch: pa.RecordBatch, column: ColumnDecoder, decoded: Decoded) -> pa.RecordBatch:
    name = column.typed.column
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, pa.field(name, column.decoder.type), decoded.rows)


def _message(batch: pa.RecordBatch, row: int, typed: Typed, reason: str) -> str:
    name = typed.column
    topic, partition, offset, value = (
        batch.column(batch.schema.get_field_index(each))[row].as_py()
        for each in ("topic", "partition", "offset", name)
    )
    schema = typed.option("Schema") if typed.schema is not None else "its schema"
    hint = ""
    if typed.format != JSON and typed.registry is None and value.startswith(ZERO):
        hint = ", like those with the id of a schema: is schemaRegistryUrl missing?"
    return (
        f"the {name} of {topic}-{partition} at offset {offset} is not {typed.format_name} of "
        f"{schema}: {reason.strip()}. It begins with {value[:SHOWN_BYTES]!r}{hint or '.'} With "
        f"decodeErrors=null such {name}s are null, and the column {UNDECODED_NAMES[name]} has "
        "their bytes. With badRecordsTopic such records are written to another topic"
    )


# -- writing --------------------------------------------------------------------------------


class JsonEncoder:
    """Encodes structs as JSON."""

    def encode(self, column: pa.Array) -> pa.Array:
        """Return the text of each row; null for null."""
        return json_encoding.encode(column)


Encoders = Mapping[str, Encoder]
"""The encoders of typed columns, by name."""


def check_column(typed: Typed, found: DataType) -> None:
    """Check that a column of a frame can be written, as far as that is known without a registry.

    Raises:
        ValueError: it cannot.
    """
    if typed.format != JSON:
        formats.check(typed, found)
        return
    if not isinstance(found, StructType) or not found.fields:
        raise ValueError(
            f"with {typed.option('Format')}=json the column '{typed.column}' must be a struct with "
            f"fields; it is {found.simpleString()}"
        )
    check_type(found, typed.column, writing=True)


def encoders(options: WriteOptions, frame: StructType) -> Encoders:
    """Return the encoders of the typed columns of a frame. Register their schemas, if wanted.

    Raises:
        ValueError: a schema is wrong, or a column does not fit it.
        ClientError: the schema registry does not respond, or does not accept a schema.
    """
    found: dict[str, Encoder] = {}
    for each in (options.key, options.value):
        if each is not None and each.column in frame.fieldNames():
            kind = frame[each.column].dataType
            found[each.column] = (
                JsonEncoder() if each.format == JSON else formats.encoder(each, kind)
            )
    return found
