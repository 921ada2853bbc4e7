"""Encodes Arrow structs as JSON texts in bulk, without a Python step per record.

Each field becomes a column of texts, and Arrow joins the columns. Only strings with characters that
JSON must escape are encoded one after the other. As with Spark's `to_json`, fields that are null
are omitted, and times are strings.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TO_ESCAPE = r'["\\\x00-\x1f]'
TIME = "%Y-%m-%dT%H:%M:%S"
"""The seconds have the digits of the type: microseconds."""


def encode(array: pa.Array) -> pa.StringArray:
    """Return the text of each item; null for null."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_list(kind):
        return _lists(array)
    if pa.types.is_string(kind):
        return _strings(array)
    if pa.types.is_timestamp(kind):
        # Values with a zone are in UTC. Without the zone, Arrow needs no time zone database.
        plain = array.cast(pa.int64()).cast(pa.timestamp(kind.unit))
        texts = pc.strftime(plain, TIME, locale="C")
        return _joined('"', texts, 'Z"' if kind.tz else '"')
    if pa.types.is_date(kind):
        return _joined('"', array.cast(pa.string()), '"')
    if pa.types.is_floating(kind):
        return _numbers(array)
    return array.cast(pa.string())


def _joined(*parts: str | pa.Array) -> pa.StringArray:
    """Return the concatenation of texts; null if one of them is null."""
    return pc.binary_join_element_wise(*parts, "")


def _structs(array: pa.StructArray) -> pa.StringArray:
    members = [
        pc.fill_null(_joined(f",{json.dumps(field.name, ensure_ascii=False)}:", text), "")
        for field, text in zip(array.type, map(encode, array.flatten()), strict=True)
    ]
    body = pc.binary_join_element_wise(*members, "")
    text = _joined("{", pc.utf8_replace_slice(body, 0, 1, ""), "}")
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _lists(array: pa.ListArray) -> pa.StringArray:
    elements = pc.fill_null(encode(array.flatten()), "null")
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    bounds = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    text = _joined(
        "[", pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds), elements), ","), "]"
    )
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _strings(array: pa.StringArray) -> pa.StringArray:
    text = _joined('"', array, '"')
    special = pc.fill_null(pc.match_substring_regex(array, TO_ESCAPE), fill_value=False)
    if not pc.any(special, min_count=0).as_py():
        return text
    escaped = [json.dumps(each, ensure_ascii=False) for each in array.filter(special).to_pylist()]
    return pc.replace_with_mask(text, special, pa.array(escaped, pa.string()))


def _numbers(array: pa.Array) -> pa.StringArray:
    """JSON has no infinite numbers, so they are strings, as in Spark."""
    text = array.cast(pa.string())
    if pc.all(pc.is_finite(array), min_count=0).as_py():
        return text
    is_nan, is_infinite = pc.is_nan(array), pc.is_inf(array)
    signed = pc.if_else(pc.less(array, 0), '"-Infinity"', '"Infinity"')
    return pc.if_else(is_nan, '"NaN"', pc.if_else(is_infinite, signed, text))
