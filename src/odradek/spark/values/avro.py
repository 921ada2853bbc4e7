"""Decodes and encodes Avro.

The library fastavro converts each byte string to Python objects and back. Everything else is done for
whole columns (`avro_shapes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from odradek.client.serializers.avro_library import UNDECODABLE, UNENCODABLE
from odradek.spark.values import avro_schema
from odradek.spark.values.avro_shapes import Shape
from odradek.spark.values.bulk import (
    Decoded,
    arranged,
    binary_column,
    decode_in_parts,
    without_collections,
)


@dataclass(frozen=True)
class AvroText:
    """A schema, and the schemas of the types that it names."""

    text: str
    references: tuple[str, ...] = ()

    @property
    def shape(self) -> Shape:
        """How the types are converted. It is parsed once in a process.

        Raises:
            AvroSchemaError: the text is no schema, or has an unsupported type.
        """
        return avro_schema.parse(self.text, self.references)


@dataclass(frozen=True)
class AvroDecoder:
    """Decodes byte strings without a prefix to columns of Spark."""

    schema: AvroText
    """The schema of the column."""
    type: pa.DataType
    written: AvroText | None = field(default=None)
    """The schema of the byte strings, if it is another one."""

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode all byte strings."""
        shape = self.schema.shape
        written = shape if self.written is None else self.written.shape
        rows: list[Any] = []
        numbers: list[int] = []
        reasons: dict[int, str] = {}
        with without_collections():
            read, reader = fastavro.schemaless_reader, None if written is shape else shape.avro
            for number, value in enumerate(values.to_pylist()):
                if value is None:
                    continue
                stream = BytesIO(value)
                try:
                    row = read(stream, written.avro, reader)
                except UNDECODABLE as error:
                    reasons[number] = _reason(error)
                    continue
                if stream.tell() != len(value):
                    left = len(value) - stream.tell()
                    reasons[number] = f"{left} of its {len(value)} bytes follow the value"
                    continue
                rows.append(row)
                numbers.append(number)
            parts = decode_in_parts(
                len(rows),
                lambda start, stop: shape.column(pa.array(rows[start:stop], shape.raw), self.type),
            )
        row_of: NDArray[np.int64] = np.array(numbers, np.int64)
        return arranged(values, row_of, parts, self.type, reasons)


def _reason(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "it ends too early"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


@dataclass(frozen=True)
class AvroEncoder:
    """Encodes a column of Spark, with a prefix before each byte string."""

    column: str
    schema: AvroText
    prefix: bytes = b""

    def encode(self, column: pa.Array) -> pa.Array:
        """Return the byte string of each row; null for null.

        Raises:
            ValueError: a row does not fit the schema.
        """
        shape = self.schema.shape
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        out = BytesIO()
        ends: list[int] = []
        with without_collections():
            raw = shape.raw_of(column).to_pylist()
            write, schema, prefix = fastavro.schemaless_writer, shape.avro, self.prefix
            try:
                for row, is_nothing in zip(raw, is_null.tolist(), strict=True):
                    if not is_nothing:
                        out.write(prefix)
                        write(out, schema, row)
                    ends.append(out.tell())
            except UNENCODABLE as error:
                raise ValueError(
                    f"the column {self.column} has a row that does not fit its schema of Avro: "
                    f"{error}"
                ) from None
        return binary_column(out.getvalue(), ends, is_null)
