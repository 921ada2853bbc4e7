"""Encodes Arrow structs as JSON texts in bulk, without a Python step per record.

Each field becomes a column of texts, and Arrow joins all columns and the names of the fields in one
call. Fields that are null in a row are omitted, as with Spark's `to_json`, so a field with nulls is
joined with its name before. Only strings with characters that JSON must escape are encoded one after
the other. Times are strings.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TO_ESCAPE = r'["\\\x00-\x1f]'

Parts = list[str | pa.StringArray]
"""Texts that are joined to one text for each row. A row is null if one of its texts is."""


def encode(array: pa.Array) -> pa.StringArray:
    """Return the text of each item; null for null."""
    return _joined(*_parts(array))


def _parts(array: pa.Array) -> Parts:
    """Return the parts of the text of each item."""
    kind = array.type
    if pa.types.is_struct(kind):
        return [_structs(array)]
    if pa.types.is_list(kind):
        return [_lists(array)]
    if pa.types.is_string(kind):
        return _strings(array)
    if pa.types.is_timestamp(kind):
        # Values with a zone are in UTC. Without the zone, Arrow needs no time zone database.
        plain = array.cast(pa.int64()).cast(pa.timestamp(kind.unit)).cast(pa.string())
        texts = pc.replace_substring(plain, " ", "T")
        return ['"', texts, 'Z"' if kind.tz else '"']
    if pa.types.is_date(kind):
        return ['"', array.cast(pa.string()), '"']
    if pa.types.is_floating(kind):
        return [_numbers(array)]
    return [array.cast(pa.string())]


def _joined(*parts: str | pa.StringArray) -> pa.StringArray:
    """Return the concatenation of texts; null if one of them is null. One part is a column."""
    merged: Parts = []
    for part in parts:
        if merged and isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    if len(merged) == 1:
        return merged[0]
    return pc.binary_join_element_wise(*merged, "")


def _structs(array: pa.StructArray) -> pa.StringArray:
    body: Parts = []
    is_first_omitted = False
    for number, (field, values) in enumerate(zip(array.type, array.flatten(), strict=True)):
        comma = "," if body else ""
        name = json.dumps(field.name, ensure_ascii=False)
        if values.null_count:
            is_first_omitted |= number == 0
            member = _joined(f",{name}:", *_parts(values))
            body.append(pc.fill_null(member, ""))
        else:
            body += [f"{comma}{name}:", *_parts(values)]
    if not body:
        body = [pa.repeat("", len(array))]
    if is_first_omitted:  # The first field that is not null in a row begins with a comma.
        texts = pc.binary_replace_slice(_joined(*body).cast(pa.binary()), 0, 1, b"")
        body = [texts.cast(pa.string())]
    text = _joined("{", *body, "}")
    if not array.null_count:
        return text
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _lists(array: pa.ListArray) -> pa.StringArray:
    elements = pc.fill_null(encode(array.flatten()), "null")
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    bounds = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    text = _joined(
        "[", pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds), elements), ","), "]"
    )
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _strings(array: pa.StringArray) -> Parts:
    special = pc.fill_null(pc.match_substring_regex(array, TO_ESCAPE), fill_value=False)
    if not pc.any(special, min_count=0).as_py():
        return ['"', array, '"']
    escaped = [json.dumps(each, ensure_ascii=False) for each in array.filter(special).to_pylist()]
    return [pc.replace_with_mask(_joined('"', array, '"'), special, pa.array(escaped, pa.string()))]


def _numbers(array: pa.Array) -> pa.StringArray:
    """JSON has no infinite numbers, so they are strings, as in Spark."""
    text = array.cast(pa.string())
    if pc.all(pc.is_finite(array), min_count=0).as_py():
        return text
    is_nan, is_infinite = pc.is_nan(array), pc.is_inf(array)
    signed = pc.if_else(pc.less(array, 0), '"-Infinity"', '"Infinity"')
    return pc.if_else(is_nan, '"NaN"', pc.if_else(is_infinite, signed, text))
