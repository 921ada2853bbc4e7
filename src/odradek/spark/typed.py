"""Typed values: the column `value` is a struct, which is JSON in the topic.

The task that reads or writes the records converts them, whole batches at once (`json_decoding`,
`json_encoding`). `Layout` says which columns a read has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.spark.columns import SCHEMA, SCHEMA_WITH_HEADERS
from odradek.spark.json_decoding import Decoded, JsonDecoder
from odradek.spark.options import Layout

VALUE, UNDECODED = "value", "undecoded"
SIMPLE_TYPES = (
    BooleanType,
    ByteType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)
SHOWN_BYTES = 80
"""The number of bytes of a value that an error message shows."""


class UndecodableValueError(ValueError):
    """A value is not a JSON object that fits the schema."""


def field_names(layout: Layout) -> list[str]:
    """Return the names of the columns of a read."""
    names: list[str] = (SCHEMA_WITH_HEADERS if layout.headers else SCHEMA).fieldNames()
    return [*names, UNDECODED] if layout.keeps_undecoded else names


def schema(layout: Layout) -> StructType | str:
    """Return the columns of a read. If a part is DDL, the result is DDL, because only Spark parses it.

    Raises:
        ValueError: the schema of values is not the JSON of a StructType.
    """
    fields = (SCHEMA_WITH_HEADERS if layout.headers else SCHEMA).fields
    if layout.keeps_undecoded:
        fields = [*fields, StructField(UNDECODED, BinaryType())]
    given = layout.value_schema
    if given is None:
        return StructType(fields)
    if given.lstrip().startswith("{"):
        try:
            row = StructType.fromJson(json.loads(given))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"valueSchema is not the JSON of a StructType: {error}") from error
        return StructType([StructField(f.name, row) if f.name == VALUE else f for f in fields])
    types = {field.name: field.dataType.simpleString() for field in fields}
    types[VALUE] = f"STRUCT<{given}>"
    return ", ".join(f"`{name}` {kind}" for name, kind in types.items())


def check_type(row: DataType, name: str, *, may_be_required: bool = False) -> None:
    """Check that values of a type can be written as JSON and read from it.

    Raises:
        ValueError: the type is not supported. Or a field is NOT NULL, and `may_be_required` is not
            set.
    """
    if isinstance(row, StructType):
        for field in row.fields:
            if not field.nullable and not may_be_required:
                raise ValueError(f"{name}.{field.name} is NOT NULL: fields of JSON may be missing")
            child = f"{name}.{field.name}"
            check_type(field.dataType, child, may_be_required=may_be_required)
    elif isinstance(row, ArrayType):
        check_type(row.elementType, f"{name}[]", may_be_required=may_be_required)
    elif not isinstance(row, SIMPLE_TYPES):
        known = ", ".join(each.typeName() for each in SIMPLE_TYPES)
        raise ValueError(
            f"{name} is of type {row.simpleString()}; JSON values have {known}, array, struct"
        )


class Undecoded(NamedTuple):
    """Rows whose value cannot be decoded, as they were read, and why not."""

    rows: pa.RecordBatch
    reasons: list[str]
    """One for each row."""


@dataclass(frozen=True)
class ValueDecoder:
    """Decodes the column `value` of batches. Tasks get a copy."""

    row_type: pa.StructType
    keeps_undecoded: bool
    """Whether values that cannot be decoded are null, and their bytes are in the last column."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with decoded values.

        Raises:
            UndecodableValueError: a value cannot be decoded, and `keeps_undecoded` is not set.
        """
        decoded = self._decoded(batch)
        if decoded.reasons and not self.keeps_undecoded:
            row = min(decoded.reasons)
            raise UndecodableValueError(_message(batch, row, decoded.reasons[row]))
        result = self._with_values(batch, decoded)
        if not self.keeps_undecoded:
            return result
        nothing = pa.scalar(None, pa.binary())
        kept = pc.if_else(pa.array(decoded.bad), batch.column(VALUE), nothing)
        return result.append_column(pa.field(UNDECODED, pa.binary()), kept)

    def separated(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Undecoded | None]:
        """Return the rows that can be decoded, with decoded values, and the other rows."""
        decoded = self._decoded(batch)
        result = self._with_values(batch, decoded)
        if not decoded.reasons:
            return result, None
        rows = batch.filter(pa.array(decoded.bad))
        undecoded = Undecoded(rows, [decoded.reasons[row] for row in sorted(decoded.reasons)])
        return result.filter(pa.array(~decoded.bad)), undecoded

    def _decoded(self, batch: pa.RecordBatch) -> Decoded:
        return JsonDecoder(self.row_type).decode(batch.column(VALUE))

    def _with_values(self, batch: pa.RecordBatch, decoded: Decoded) -> pa.RecordBatch:
        place = batch.schema.get_field_index(VALUE)
        return batch.set_column(place, pa.field(VALUE, self.row_type), decoded.rows)


def decoder(layout: Layout, parsed: StructType) -> ValueDecoder | None:
    """Return the decoder of a read, whose columns Spark has parsed. None: values stay binary.

    Raises:
        ValueError: values of this type cannot be JSON.
    """
    if layout.value_schema is None:
        return None
    row = parsed[VALUE].dataType
    if not isinstance(row, StructType) or not row.fields:
        raise ValueError("valueSchema has no fields")
    check_type(row, VALUE)
    arrow = to_arrow_schema(StructType([StructField(VALUE, row)]), timezone="UTC")
    return ValueDecoder(arrow.field(0).type, layout.keeps_undecoded)


def _message(batch: pa.RecordBatch, row: int, reason: str) -> str:
    topic, partition, offset, value = (
        batch.column(batch.schema.get_field_index(name))[row].as_py()
        for name in ("topic", "partition", "offset", VALUE)
    )
    return (
        f"the value of {topic}-{partition} at offset {offset} is not JSON of valueSchema: "
        f"{reason.strip()}. It begins with {value[:SHOWN_BYTES]!r}. With decodeErrors=null such "
        f"values are null, and the column {UNDECODED} has their bytes. With badRecordsTopic such "
        "records are written to another topic"
    )
