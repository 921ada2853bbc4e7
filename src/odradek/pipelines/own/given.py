"""Lets DuckDB read what a person gave: files or the records of a topic. Used only by checks.

DuckDB splits lines, takes objects apart, and finds types with expressions of its own. The result is
the table `given`: the file and its number, the line, a column of text for each field, and whether the
line is well-formed; and the view `rows` with typed columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from odradek.pipelines.inputs import DamagedError, blocks, lines
from odradek.pipelines.own import formats
from odradek.pipelines.own.fields import DECIMAL, INTEGER, NUMBER, TEXT, TIME, Field, Fields
from odradek.pipelines.own.formats import Format
from odradek.pipelines.own.shipping import Position

LINES_PER_PART = 50_000
_HOUR = "([01][0-9]|2[0-3])"
PATTERNS = {
    "iso": rf"\d\d\d\d-\d\d-\d\d([T ]{_HOUR}:[0-5]\d(:[0-5]\d(\.\d{{1,9}})?)?"
    r"( ?UTC|Z|[-+]\d\d:\d\d)?)?",
    "since": r"-?\d{1,19}(\.\d+)?",
    "number": r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+|E[-+]?\d+)?",
    "integer": r"[-+]?\d{1,10}",
    "finer": r"(\.\d{6})\d+",
}
TIME_OF = r"""
CASE WHEN regexp_full_match({0}, getvariable('iso')) THEN
        try_cast(regexp_replace(replace({0}, ' UTC', 'Z'), getvariable('finer'), '\1') AS TIMESTAMPTZ)
    WHEN regexp_full_match({0}, getvariable('since')) THEN make_timestamptz(
        CASE WHEN abs(try_cast({0} AS DOUBLE)) < 1e11
            THEN floor(try_cast({0} AS DECIMAL(38,9)) * 1000000)
        WHEN abs(try_cast({0} AS DOUBLE)) < 1e14 THEN floor(try_cast({0} AS DECIMAL(38,9)) * 1000)
        WHEN abs(try_cast({0} AS DOUBLE)) < 1e17 THEN floor(try_cast({0} AS DECIMAL(38,9)))
        ELSE floor(try_cast({0} AS DECIMAL(38,9)) / 1000) END::BIGINT)
END"""
TYPED = {
    TEXT: "{0}",
    TIME: TIME_OF,
    INTEGER: "CASE WHEN regexp_full_match({0}, getvariable('integer')) THEN try_cast({0} AS INT) END",
    NUMBER: "CASE WHEN regexp_full_match({0}, getvariable('number')) THEN try_cast({0} AS DOUBLE) END",
    DECIMAL: "CASE WHEN regexp_full_match({0}, getvariable('number')) "
    "THEN try_cast({0} AS DECIMAL(18,4)) END",
}
Lines = Iterable[tuple[int, str]]


def connect() -> duckdb.DuckDBPyConnection:
    """Return a database in memory, with the time zone UTC."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    for name, pattern in PATTERNS.items():
        database.execute(f"SET VARIABLE {name} = $pattern", {"pattern": pattern})
    return database


class Given:
    """Fills the table `given` of a schema, and types it."""

    def __init__(
        self, database: duckdb.DuckDBPyConnection, fields: Fields, schema: str = "main"
    ) -> None:
        self._database = database
        self._fields = fields
        self._schema = schema
        self._files: dict[str, int] = {}
        columns = "".join(f", {quoted(each.name)} VARCHAR" for each in fields)
        database.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        database.execute(
            f"CREATE TABLE {schema}.given "
            f"(file VARCHAR, line BIGINT{columns}, valid BOOLEAN, file_number INT)"
        )

    def add_file(self, path: Path, form: Format, position: Position) -> None:
        """Add a file, as far as it was read for the topic: it may have grown."""
        name = str(path)
        if form.kind == formats.PARQUET:
            self._add_parquet(name, form, position.lines)
        elif form.kind == formats.JSON:
            for part in _parts(_lines(path, position)):
                self.add_objects(name, part)
        else:
            found = _lines(path, position)
            if form.has_header:
                next(found, None)
            for part in _parts(found):
                self._add_separated(name, form, part)

    def add_objects(self, name: str, found: Lines) -> None:
        """Add lines that are JSON objects, or should be."""
        found = list(found)
        table = pa.table(
            {
                "line": pa.array([number for number, _ in found], pa.int64()),
                "text": pa.array([text for _, text in found], pa.string()),
                "valid": pa.array([_is_object(text) for _, text in found], pa.bool_()),
            }
        )
        values = "".join(f", CASE WHEN valid THEN {_in_json(each)} END" for each in self._fields)
        self._insert(f"SELECT $name, line{values}, valid FROM part", name, table)

    def _add_separated(self, name: str, form: Format, found: Lines) -> None:
        found = list(found)
        table = pa.table(
            {
                "line": pa.array([number for number, _ in found], pa.int64()),
                "text": pa.array([text for _, text in found], pa.string()),
            }
        )
        values = "".join(f", {_in_values(each, form)}" for each in self._fields)
        self._insert(
            f"SELECT $name, line{values}, parts IS NOT NULL AND len(parts) = {len(form.columns)} "
            f"FROM (SELECT line, {_split(form)} AS parts FROM part)",
            name,
            table,
        )

    def _add_parquet(self, name: str, form: Format, last: int) -> None:
        values = "".join(f", {_in_columns(each, form)}" for each in self._fields)
        query = (
            f"SELECT $name, file_row_number + 1{values}, true AS valid "
            "FROM read_parquet($name, file_row_number = true) WHERE file_row_number < $last"
        )
        self._execute(query, name, last=last)

    def _insert(self, query: str, name: str, part: pa.Table) -> None:
        self._database.register("part", part)
        self._execute(query, name)
        self._database.unregister("part")

    def _execute(self, query: str, name: str, **more: int) -> None:
        number = self._files.setdefault(name, len(self._files))
        self._database.execute(
            f"INSERT INTO {self._schema}.given SELECT *, {number} FROM ({query})",
            {"name": name, **more},
        )

    def finish(self) -> None:
        """Make the view `rows` of typed rows, and the view `bad` of the lines that are none."""
        typed = ", ".join(f"{_typed(each)} AS {quoted(each.name)}" for each in self._fields)
        is_row = " AND ".join(
            ["valid", *(f"{quoted(f.name)} IS NOT NULL" for f in self._fields if f.is_required)]
        )
        at = self._schema
        for command in (
            f"CREATE TABLE {at}.typed AS "
            f"SELECT file, file_number, line, valid, {typed} FROM {at}.given",
            f"CREATE VIEW {at}.rows AS FROM {at}.typed WHERE {is_row}",
            f"CREATE VIEW {at}.bad AS FROM {at}.typed WHERE NOT coalesce({is_row}, false)",
        ):
            self._database.execute(command)


def _typed(field: Field) -> str:
    typed = TYPED[field.kind].format(quoted(field.name))
    if not field.values:
        return typed
    allowed = ", ".join(map(literal, field.values))
    return f"CASE WHEN {typed} IN ({allowed}) THEN {typed} END"


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"{}"'.format(name.replace('"', '""'))


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'{}'".format(text.replace("'", "''"))


def _in_json(field: Field) -> str:
    """Return the expression for a field of the object `text`."""
    paths = [
        "$" + "".join(f".{quoted(step)}" for step in steps)
        for name in field.columns
        for steps in dict.fromkeys([(name,), tuple(name.split("."))])
    ]
    found = [f"json_extract_string(text, {literal(path)})" for path in paths]
    return f"coalesce({', '.join(found)})"


def _in_values(field: Field, form: Format) -> str:
    at = [form.columns.index(name) + 1 for name in field.columns if name in form.columns]
    found = [f"nullif(parts[{each}], '')" for each in at]
    return f"coalesce({', '.join(found)})" if found else "NULL"


def _in_columns(field: Field, form: Format) -> str:
    found = [f"CAST({quoted(name)} AS VARCHAR)" for name in field.columns if name in form.columns]
    return f"coalesce({', '.join(found)})" if found else "NULL"


def _split(form: Format) -> str:
    """Return the expression for the values of a line; null if its quotes are wrong."""
    if len(form.delimiter) > 1:
        return f"string_split(text, {literal(form.delimiter)})"
    mark = f"\\x{ord(form.delimiter):02x}"
    value = f'"(?:[^"]|"")*"|[^"{mark}][^{mark}]*|'
    whole = literal(f"(?:(?:{value}){mark})+")
    each = literal(f"({value}){mark}")
    line = f"text || {literal(form.delimiter)}"
    return (
        f"CASE WHEN regexp_full_match({line}, {whole}) THEN list_transform("
        f"regexp_extract_all({line}, {each}, 1), lambda v: CASE WHEN starts_with(v, '\"') "
        "THEN replace(v[2:-2], '\"\"', '\"') ELSE v END) END"
    )


def _lines(path: Path, position: Position) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, up to a position."""
    try:
        for number, line in enumerate(lines(blocks(path, position.cut_at_bytes)), 1):
            if number > position.lines:
                return
            text = line.decode("utf-8", "replace").rstrip("\r")
            text = text.removeprefix("\ufeff") if number == 1 else text
            if text.strip():
                yield number, text
    except DamagedError:  # it was damaged when it was sent, too
        return


def _parts(found: Iterator[tuple[int, str]]) -> Iterator[Lines]:
    part: list[tuple[int, str]] = []
    for each in found:
        part.append(each)
        if len(part) == LINES_PER_PART:
            yield part
            part = []
    if part:
        yield part


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(name: str) -> Any:
    raise ValueError(name)


def add_results(
    database: duckdb.DuckDBPyConnection,
    name: str,
    values: Iterable[bytes | None],
    columns: Mapping[str, str],
) -> None:
    """Make a table of the JSON values of a result topic, with columns and their types of DuckDB."""
    texts = pa.table({"text": pa.array([v and v.decode() for v in values], pa.string())})
    found = ", ".join(
        f"CAST(json_extract_string(text, {literal('$.' + column)}) AS {kind}) AS {quoted(column)}"
        for column, kind in columns.items()
    )
    database.register("texts", texts)
    database.execute(f"CREATE TABLE {quoted(name)} AS SELECT {found} FROM texts")
    database.unregister("texts")


def differing(database: duckdb.DuckDBPyConnection, expected: str, found: str) -> int:
    """Return how many rows are in only one of two tables or queries with the same columns."""
    return count(
        database,
        f"(({expected}) EXCEPT ALL ({found})) UNION ALL (({found}) EXCEPT ALL ({expected}))",
    )


def count(database: duckdb.DuckDBPyConnection, query: str) -> int:
    """Return the number of rows of a query."""
    return number(database, f"SELECT count(*) FROM ({query})")


def number(database: duckdb.DuckDBPyConnection, query: str, values: object = None) -> int:
    """Return the number that is the result of a query."""
    ((found,),) = database.execute(query, values).fetchall()  # `fetchone` would leave it unfinished
    return int(found)
