"""Decodes and encodes Protobuf.

The library parses and makes each message. Everything else is done for whole columns
(`protobuf_shapes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError, EncodeError
from numpy.typing import NDArray

from odradek.client.serializers.framing import index_prefixes
from odradek.client.serializers.protobuf_schema import ProtobufSchema
from odradek.spark.values.bulk import (
    Decoded,
    arranged,
    binary_column,
    decode_in_parts,
    without_collections,
)
from odradek.spark.values.protobuf_shapes import prepare
from odradek.spark.values.settings import ProtobufOptions

UNENCODABLE = (EncodeError, OverflowError, TypeError, ValueError)
"""What the library raises for rows that do not fit the schema."""


@dataclass(frozen=True)
class ProtobufDecoder:
    """Decodes byte strings without a prefix to columns of Spark."""

    schema: ProtobufSchema
    options: ProtobufOptions
    type: pa.DataType

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode all byte strings."""
        prepared = prepare(self.schema, self.options)
        parse, shape = prepared.parse, prepared.shape
        messages: list[Any] = []
        numbers: list[int] = []
        reasons: dict[int, str] = {}
        with without_collections():
            for number, value in enumerate(values.to_pylist()):
                if value is None:
                    continue
                try:
                    message = parse(value)
                except DecodeError as error:
                    reasons[number] = str(error)
                    continue
                if prepared.has_required and not message.IsInitialized():
                    missing = ", ".join(message.FindInitializationErrors())
                    reasons[number] = f"it is missing required fields: {missing}"
                    continue
                messages.append(message)
                numbers.append(number)
            parts = decode_in_parts(
                len(messages),
                lambda start, stop: shape.column(messages[start:stop], self.type),
            )
        row_of: NDArray[np.int64] = np.array(numbers, np.int64)
        return arranged(values, row_of, parts, self.type, reasons)


@dataclass(frozen=True)
class IndexedDecoder:
    """Decodes byte strings that begin with the numbers of their message."""

    decoder: ProtobufDecoder
    indexes: tuple[int, ...]
    """The numbers of the message in the schema with which the byte strings were written."""

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded column."""
        return self.decoder.type

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode all byte strings. Those of other messages cannot be decoded."""
        left = pa.nulls(len(values), pa.binary())
        for prefix in index_prefixes(self.indexes):
            fits = pc.fill_null(pc.starts_with(values, prefix), fill_value=False)
            body = pc.binary_replace_slice(values, 0, len(prefix), b"")
            left = pc.if_else(fits, body, left)
        decoded = self.decoder.decode(left)
        other = values.is_valid().to_numpy(zero_copy_only=False) & left.is_null().to_numpy(
            zero_copy_only=False
        )
        reason = f"it is not the message {self.decoder.schema.message} of its schema"
        reasons = dict.fromkeys(np.flatnonzero(other).tolist(), reason)
        return Decoded(decoded.rows, decoded.bad | other, decoded.reasons | reasons)


@dataclass(frozen=True)
class ProtobufEncoder:
    """Encodes a column of Spark, with a prefix before each byte string."""

    column: str
    schema: ProtobufSchema
    options: ProtobufOptions
    prefix: bytes = b""

    def encode(self, column: pa.Array) -> pa.Array:
        """Return the byte string of each row; null for null.

        Raises:
            ValueError: a row does not fit the schema.
        """
        prepared = prepare(self.schema, self.options)
        new, prefix = prepared.new, self.prefix
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        out = BytesIO()
        ends: list[int] = []
        with without_collections():
            try:
                for row in prepared.shape.raw_of(column).to_pylist():
                    if row is not None:
                        out.write(prefix)
                        out.write(new(**row).SerializeToString())
                    ends.append(out.tell())
            except UNENCODABLE as error:
                raise ValueError(
                    f"the column {self.column} has a row that does not fit its schema of "
                    f"Protobuf: {error}"
                ) from None
        return binary_column(out.getvalue(), ends, is_null)
