"""Reads the rows of files as JSON objects, the values of records.

JSON Lines stay as they are. Separated values and Parquet become objects whose values are text. Blank
lines are no rows. What is no row has a reason instead of a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from odradek.pipelines.inputs import DamagedError, End, blocks, lines
from odradek.pipelines.own import formats
from odradek.pipelines.own.fields import Field
from odradek.pipelines.own.formats import Format

VALUE_BYTES_MAX = 900_000
"""Brokers accept records of 1 MiB."""
PARQUET_ROWS = 4_096
KEY_SEPARATOR = "\x1f"
BOM = "\ufeff"


class Row(NamedTuple):
    """A row of a file, or the reason why a line is none."""

    number: int
    """Of the line, or of the row of a Parquet file. The first one is 1."""
    key: str
    value: str
    reason: str = ""
    cut_at_bytes: int | None = None
    """The size of the content that was read, if this is its last line and has no line break."""


def rows(path: Path, form: Format, keys: Sequence[Field]) -> Iterator[Row]:
    """Yield the rows of a file. Their key is the values of the fields `keys`.

    Raises:
        DamagedError: the file cannot be read to its end.
    """
    end = End()
    if form.kind == formats.PARQUET:
        found = _parquet_rows(path, keys)
    elif form.kind == formats.JSON:
        found = _json_rows(_texts(path, end), keys)
    else:
        found = _separated_rows(_texts(path, end), form, keys)
    for row in found:
        if len(row.value) * 4 > VALUE_BYTES_MAX and len(row.value.encode()) > VALUE_BYTES_MAX:
            yield Row(row.number, "", "", "it is too long", end.cut_at_bytes)
        elif end.cut_at_bytes is not None:
            yield row._replace(cut_at_bytes=end.cut_at_bytes)
        else:
            yield row


Texts = Iterator[tuple[int, str]]
"""Lines with their numbers."""


def _texts(path: Path, end: End) -> Texts:
    """Yield the lines that are not blank, with their numbers."""
    for number, line in enumerate(lines(blocks(path), end), 1):
        text = line.decode("utf-8", "replace").rstrip("\r")
        if number == 1:
            text = text.removeprefix(BOM)
        if text.strip():
            yield number, text


def _json_rows(texts: Texts, keys: Sequence[Field]) -> Iterator[Row]:
    for number, text in texts:
        yield Row(number, _key_of(text, keys), text)


def _key_of(text: str, keys: Sequence[Field]) -> str:
    """Return the key of a JSON object; an empty one if it has none, or is no object."""
    try:
        row = json.loads(text)
    except ValueError:
        return ""
    return KEY_SEPARATOR.join(_value_of(row, each) for each in keys)


def _value_of(row: Any, key: Field) -> str:
    for column in key.columns:
        for path in ([column], column.split(".")):
            value = row
            for name in path:
                value = value.get(name) if isinstance(value, dict) else None
            if value is not None:
                return value if isinstance(value, str) else json.dumps(value)
    return ""


def _joined(row: Mapping[str, str | None], keys: Sequence[Field]) -> str:
    """Return the key of a row whose values are text."""
    return KEY_SEPARATOR.join(
        next((value for name in each.columns if (value := row.get(name))), "") for each in keys
    )


def _separated_rows(texts: Texts, form: Format, keys: Sequence[Field]) -> Iterator[Row]:
    columns = form.columns
    if form.has_header:
        next(texts, None)
    for number, text in texts:
        values = formats.split(text, form.delimiter)
        if values is None:
            yield Row(number, "", "", "its quotes are wrong")
        elif len(values) != len(columns):
            reason = f"it has {len(values)} values, and the file has {len(columns)} columns"
            yield Row(number, "", "", reason)
        else:
            row = {name: value or None for name, value in zip(columns, values, strict=True)}
            yield Row(number, _joined(row, keys), json.dumps(row, ensure_ascii=False))


def _parquet_rows(path: Path, keys: Sequence[Field]) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    def text(column: pa.Array) -> list[Any]:
        if pa.types.is_nested(column.type):
            return [None if each is None else json.dumps(each) for each in column.to_pylist()]
        texts: list[Any] = pc.cast(column, pa.string()).to_pylist()
        return texts

    number = 0
    try:
        for batch in pq.ParquetFile(path).iter_batches(PARQUET_ROWS):
            columns = {name: text(batch.column(name)) for name in batch.schema.names}
            for values in zip(*columns.values(), strict=True):
                number += 1
                row = dict(zip(columns, values, strict=True))
                yield Row(number, _joined(row, keys), json.dumps(row, ensure_ascii=False))
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(str(error).partition("\n")[0]) from error
