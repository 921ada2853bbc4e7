"""Decodes JSON values to Arrow structs in bulk, without a Python step per record.

The values are joined with line feeds, and `pyarrow.json` parses them in one call. Only values that
begin with `{` and end with `}` are parsed; all others cannot be decoded. A parsed value gives one
row, several rows, or an error. Two values never give one row together, because JSON has no `{`
directly after a `}`, and no line feed in a string. So if there are as many rows as values, row i is
value i.

If there is an error, or there are more rows than values, halves of the values are parsed again
(`odradek.spark.values.bulk`).

Types that JSON does not have are converted as `from_json` of Spark does. Times are strings, whose
nanoseconds are cut, or numbers. The parser needs to know which of both, so if it finds no strings, the
first value decides. Decimals are rounded half up. The parser has no maps, so Python reads the values
of a type with maps, and only they cost a step per record.
"""

from __future__ import annotations

import json
from decimal import Decimal
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
NANOSECONDS = r"(\.\d{6})\d+"
SECOND_US = 1_000_000
EXACT = pa.decimal256(76, 38)
"""The type in which decimals are parsed, before they are rounded. Numbers that do not fit are bad."""
ITEM = "item"


class JsonDecoder:
    """Decodes values to a type of structs. Fields may be maps from strings to simple types."""

    def __init__(self, row_type: pa.StructType, number_us: int = SECOND_US) -> None:
        """`number_us` is the unit of times that are numbers, in microseconds."""
        self._type = row_type
        self._number_us = number_us
        self._parsed = [field for field in row_type if not pa.types.is_map(field.type)]
        self._maps = {
            field.name: JsonDecoder(pa.struct([(ITEM, field.type.item_type)]), number_us)
            for field in row_type
            if pa.types.is_map(field.type)
        }
        self._options = self._options_for({})

    @property
    def type(self) -> pa.StructType:
        """The type of the decoded values."""
        return self._type

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy this object: options of the parser cannot be pickled."""
        return JsonDecoder, (self._type, self._number_us)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode all values."""
        chosen, row_of = _objects(values)
        parts = decode_in_parts(
            len(chosen), lambda start, stop: self._decode(chosen.slice(start, stop - start))
        )
        return arranged(values, row_of, parts, self._type, "it is not a JSON object")

    def _options_for(self, sample: Any) -> pyarrow.json.ParseOptions:
        """Return options for values whose times are strings or numbers, as those of a sample are."""
        fields = [
            field.with_type(_parsed_type(field.type, sample.get(field.name)))
            for field in self._parsed
        ]
        return pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"
        )

    def _decode(self, values: pa.BinaryArray) -> pa.StructArray:
        """Decode objects.

        Raises:
            pa.ArrowInvalid: a value cannot be decoded.
        """
        try:
            table = _parse(values, self._options)
        except pa.ArrowInvalid:
            options = self._options_for(_loaded(values[0].as_py()))
            if options.explicit_schema == self._options.explicit_schema:
                raise
            table = _parse(values, options)
        columns = {
            field.name: _converted(
                pa.concat_arrays(table.column(field.name).chunks), field.type, self._number_us
            )
            for field in self._parsed
        }
        if self._maps:
            objects = [_loaded(each) for each in values.to_pylist()]
            for name, items in self._maps.items():
                found = [each.get(name) for each in objects]
                columns[name] = _map(found, self._type.field(name), items)
        ordered = [columns[field.name] for field in self._type]
        return pa.StructArray.from_arrays(ordered, fields=list(self._type))


def _parse(values: pa.BinaryArray, options: pyarrow.json.ParseOptions) -> pa.Table:
    """Parse objects.

    Raises:
        pa.ArrowInvalid: a value is no object, or a field has another type.
    """
    bounds = pa.array([0, len(values)], pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(bounds, values), b"\n")[0].as_buffer()
    table = pyarrow.json.read_json(
        pa.BufferReader(joined),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=joined.size + 1),
        parse_options=options,
    )
    if table.num_rows != len(values):
        raise pa.ArrowInvalid("there is more than one JSON object")
    return table


def _loaded(value: bytes) -> dict[str, Any]:
    """Return an object, whose numbers with fractions are exact.

    Raises:
        pa.ArrowInvalid: it is no object.
    """
    try:
        found = json.loads(value, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise pa.ArrowInvalid(str(error)) from error
    if not isinstance(found, dict):
        raise pa.ArrowInvalid("it is not a JSON object")
    return found


def _map(found: list[Any], field: pa.Field, decoder: JsonDecoder) -> pa.MapArray:
    """Return maps. `decoder` decodes the values of all of them at once.

    Raises:
        pa.ArrowInvalid: something is no object, or a value in it has another type.
    """
    keys: list[str] = []
    items: list[bytes] = []
    offsets: list[int | None] = []
    for each in found:
        offsets.append(None if each is None else len(keys))
        if each is None:
            continue
        if not isinstance(each, dict):
            raise pa.ArrowInvalid(f"{field.name} is not a JSON object")
        keys += each
        items += (b'{"%s":%s}' % (ITEM.encode(), _text(item)) for item in each.values())
    offsets.append(len(keys))
    decoded = decoder.decode(pa.array(items, pa.binary()))
    if decoded.reasons:
        raise pa.ArrowInvalid(f"{field.name}: {decoded.reasons[min(decoded.reasons)]}")
    bounds = pa.array(offsets, pa.int32())
    maps = pa.MapArray.from_arrays(bounds, pa.array(keys, pa.string()), decoded.rows.field(0))
    return maps if maps.type == field.type else maps.cast(field.type)


def _text(item: Any) -> bytes:
    """Return a value as JSON. `json` does not write decimals, whose text is a number of JSON."""
    return str(item).encode() if isinstance(item, Decimal) else json.dumps(item).encode()


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


def _parsed_type(target: pa.DataType, sample: Any) -> pa.DataType:
    """Return the type in which values are parsed. JSON has no dates and times.

    A sample shows whether a time is a number.
    """
    if pa.types.is_timestamp(target):
        is_number = isinstance(sample, int) and not isinstance(sample, bool)
        return pa.int64() if is_number and target.tz is not None else pa.string()
    if pa.types.is_date(target):
        return pa.string()
    if pa.types.is_decimal(target):
        return EXACT
    if pa.types.is_struct(target):
        inner = sample if isinstance(sample, dict) else {}
        return pa.struct(
            [field.with_type(_parsed_type(field.type, inner.get(field.name))) for field in target]
        )
    if pa.types.is_list(target):
        element = target.value_field
        first = sample[0] if isinstance(sample, list) and sample else None
        return pa.list_(element.with_type(_parsed_type(element.type, first)))
    return target


def _converted(array: pa.Array, target: pa.DataType, number_us: int) -> pa.Array:
    """Convert what was parsed to the type that is wanted.

    Raises:
        pa.ArrowInvalid: a string is no date or no time, or a number is too large.
    """
    if pa.types.is_timestamp(target):
        if pa.types.is_integer(array.type):
            return pc.multiply_checked(array, number_us).cast(target)
        return _times(array, target)
    if pa.types.is_date(target):
        return pc.cast(array, target)
    if pa.types.is_decimal(target):
        rounded = pc.round(array, target.scale, "half_towards_infinity")
        return rounded.cast(target)
    if pa.types.is_struct(target):
        columns = [
            _converted(array.field(n), field.type, number_us) for n, field in enumerate(target)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=array.is_null())
    if pa.types.is_list(target):
        elements = _converted(array.values, target.value_type, number_us)
        return pa.ListArray.from_arrays(array.offsets, elements, target, mask=array.is_null())
    return array


def _times(texts: pa.StringArray, target: pa.TimestampType) -> pa.TimestampArray:
    """Convert times. What is shorter than a microsecond is cut."""
    try:
        return _whole_times(texts, target)
    except pa.ArrowInvalid:
        cut = pc.replace_substring_regex(texts, NANOSECONDS, r"\1")
        return _whole_times(cut, target)


def _whole_times(texts: pa.StringArray, target: pa.TimestampType) -> pa.TimestampArray:
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
