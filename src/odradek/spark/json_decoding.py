"""Decodes JSON values to Arrow structs in bulk, without a Python step per record.

The values are joined with line feeds, and `pyarrow.json` parses them in one call. Only values that
begin with `{` and end with `}` are parsed; all others cannot be decoded. A parsed value gives one
row, several rows, or an error. Two values never give one row together, because JSON has no `{`
directly after a `}`, and no line feed in a string. So if there are as many rows as values, row i is
value i.

If there is an error, or there are more rows than values, halves of the values are parsed again
(`odradek.spark.values.bulk`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from numpy.typing import NDArray

from odradek.spark.values.bulk import Decoded, arranged, decode_in_parts

WHITESPACE = b" \t\r\n"
ZONE = r"[T ]\d\d:?\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
"""A time with a zone."""


class JsonDecoder:
    """Decodes values to a type of structs."""

    def __init__(self, row_type: pa.StructType) -> None:
        self._type = row_type
        schema = pa.schema([field.with_type(_parsed_type(field.type)) for field in row_type])
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore"
        )

    @property
    def type(self) -> pa.StructType:
        """The type of the decoded values."""
        return self._type

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy this object: options of the parser cannot be pickled."""
        return JsonDecoder, (self._type,)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode all values."""
        chosen, row_of = _objects(values)
        parts = decode_in_parts(
            len(chosen), lambda start, stop: self._parse(chosen.slice(start, stop - start))
        )
        return arranged(values, row_of, parts, self._type, "it is not a JSON object")

    def _parse(self, values: pa.BinaryArray) -> pa.StructArray:
        """Parse objects.

        Raises:
            pa.ArrowInvalid: a value cannot be decoded.
        """
        bounds = pa.array([0, len(values)], pa.int32())
        joined = pc.binary_join(pa.ListArray.from_arrays(bounds, values), b"\n")[0].as_buffer()
        table = pyarrow.json.read_json(
            pa.BufferReader(joined),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=joined.size + 1),
            parse_options=self._options,
        )
        if table.num_rows != len(values):
            raise pa.ArrowInvalid("there is more than one JSON object")
        columns = [
            _converted(pa.concat_arrays(table.column(field.name).chunks), field.type)
            for field in self._type
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self._type))


def _objects(values: pa.BinaryArray) -> tuple[pa.BinaryArray, NDArray[np.int64]]:
    """Return the values that look like objects, and their rows. Whitespace around them is removed."""
    looks = pc.and_(pc.starts_with(values, "{"), pc.ends_with(values, "}"))
    is_object = pc.fill_null(looks, fill_value=False).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_object)
    if len(rows) == len(values):
        return values, rows
    stripped, rows_of_stripped = [], []
    for row in np.flatnonzero(~is_object & values.is_valid().to_numpy(zero_copy_only=False)):
        value = values[int(row)].as_py().strip(WHITESPACE)
        if value.startswith(b"{") and value.endswith(b"}"):
            stripped.append(value)
            rows_of_stripped.append(row)
    chosen = values.take(pa.array(rows))
    if not stripped:
        return chosen, rows
    all_rows = np.concatenate([rows, np.array(rows_of_stripped, rows.dtype)])
    return pa.concat_arrays([chosen, pa.array(stripped, values.type)]), all_rows


def _parsed_type(target: pa.DataType) -> pa.DataType:
    """Return the type in which values are parsed. JSON has no dates and times, only strings."""
    if pa.types.is_timestamp(target) or pa.types.is_date(target):
        return pa.string()
    if pa.types.is_struct(target):
        return pa.struct([field.with_type(_parsed_type(field.type)) for field in target])
    if pa.types.is_list(target):
        element = target.value_field
        return pa.list_(element.with_type(_parsed_type(element.type)))
    return target


def _converted(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert what was parsed to the type that is wanted.

    Raises:
        pa.ArrowInvalid: a string is no date or no time.
    """
    if pa.types.is_timestamp(target):
        return _times(array, target)
    if pa.types.is_date(target):
        return pc.cast(array, target)
    if pa.types.is_struct(target):
        columns = [_converted(array.field(n), field.type) for n, field in enumerate(target)]
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=array.is_null())
    if pa.types.is_list(target):
        elements = _converted(array.values, target.value_type)
        return pa.ListArray.from_arrays(array.offsets, elements, target, mask=array.is_null())
    return array


def _times(texts: pa.StringArray, target: pa.TimestampType) -> pa.TimestampArray:
    """Convert times. A time without a zone is in UTC."""
    if target.tz is None:
        return pc.cast(texts, target)
    has_zone = pc.match_substring_regex(texts, ZONE)
    if pc.all(has_zone, min_count=0).as_py():
        return pc.cast(texts, target)
    nothing = pa.scalar(None, pa.string())
    plain = pc.cast(pc.if_else(has_zone, nothing, texts), pa.timestamp(target.unit))
    zoned = pc.cast(pc.if_else(has_zone, texts, nothing), target)
    return pc.coalesce(zoned, plain.cast(pa.int64()).cast(target))
