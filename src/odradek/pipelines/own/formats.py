"""Finds the format of a file from its content: JSON Lines, separated values, or Parquet.

A row of separated values is one line: a line break in quotes is not supported. So a quote that is not
closed damages one row, and not the rest of the file.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from odradek.pipelines.inputs import blocks, is_text, lines

JSON, SEPARATED, PARQUET = "json", "csv", "parquet"
PARQUET_MAGIC = b"PAR1"
DELIMITERS = ("::", ",", "\t", ";", "|")
PROBED_BYTES_MAX = 1 << 20
LINES_PROBED = 100


class FormatError(ValueError):
    """A file is not read. The message is the reason."""

    def __init__(self, reason: str, lines: int | None = None) -> None:
        """`lines` is the number of its lines, if it is known."""
        super().__init__(reason)
        self.lines = lines


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a file, with its columns. Of JSON these are the keys of the first objects."""

    kind: str
    delimiter: str = ""
    columns: tuple[str, ...] = ()
    has_header: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person says of the format. Without a kind, the content decides."""

    kind: str | None = None
    delimiter: str | None = None
    columns: tuple[str, ...] = ()
    """The columns of separated values without a header."""
    default_columns: tuple[str, ...] = ()
    """Those of files that are separated by `::`, which have no header (MovieLens)."""


def find(path: Path, wanted: Wanted) -> Format:
    """Return the format of a file.

    Raises:
        FormatError: it is neither text nor Parquet, or is empty.
        PermissionError: the file may not be read.
        DamagedError: its beginning cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(len(PARQUET_MAGIC))
    if wanted.kind == PARQUET or (wanted.kind is None and start == PARQUET_MAGIC):
        return Format(PARQUET, columns=_parquet_columns(path))
    if not is_text(path):
        raise FormatError("it is not text")
    found = _first_lines(path)
    first = next(found, "")
    if not first:
        raise FormatError("it is empty")
    if wanted.kind == JSON or (wanted.kind is None and first.startswith("{")):
        return Format(JSON, columns=keys_of([first, *found]))
    delimiter = wanted.delimiter or max(DELIMITERS, key=first.count)
    given = wanted.columns or (wanted.default_columns if delimiter == "::" else ())
    header = tuple(split(first, delimiter) or ())
    return Format(SEPARATED, delimiter, given or header, has_header=not given)


def _parquet_columns(path: Path) -> tuple[str, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return tuple(pq.read_schema(path).names)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"it is no Parquet file: {str(error).partition(chr(10))[0]}") from None


def parquet_rows(path: Path) -> int:
    """Return the number of rows of a Parquet file."""
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def _first_lines(path: Path) -> Iterator[str]:
    """Yield the first lines that are not blank; an empty text if there is none."""
    for line in islice(lines(blocks(path, PROBED_BYTES_MAX)), LINES_PROBED):
        text = line.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r")
        if text.strip():
            yield text


def keys_of(texts: Iterable[str | bytes]) -> tuple[str, ...]:
    """Return the keys that objects of JSON have, leaving out what is none."""
    keys: dict[str, None] = {}
    for text in texts:
        try:
            found = json.loads(text)
        except ValueError:
            continue
        if isinstance(found, dict):
            keys |= dict.fromkeys(found)
    return tuple(keys)


def split(line: str, delimiter: str) -> list[str] | None:
    """Return the values of a line; None if its quotes are wrong."""
    if '"' not in line or len(delimiter) > 1:
        return line.split(delimiter)
    try:
        (values,) = csv.reader([line], delimiter=delimiter, strict=True)
    except (csv.Error, ValueError):
        return None
    return values
