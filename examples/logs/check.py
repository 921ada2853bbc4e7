"""Computes with DuckDB, from the files that were given, what must be in the lake.

Of files that are followed it reads the copies of what was read, because the files may be gone.

No code of the stream is used: DuckDB splits the lines, and finds times and levels with expressions
of its own. Then it reads the Parquet files, and compares each line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import duckdb

from examples.logs.shipping import Content, Shipped, value_of
from odradek.pipelines.inputs import DamagedError, blocks
from odradek.pipelines.own.rows import VALUE_BYTES_MAX
from odradek.pipelines.places import Line

PART_BYTES = 32 << 20
SPLIT = """
INSERT INTO given
SELECT $file, $generation, $before + unnest(generate_series(1, len(parts))), unnest(parts)
FROM (SELECT string_split($text, chr(10)) AS parts)
"""
CLOCK = "([0-9]{2}:[0-9]{2}:[0-9]{2})"
PATTERNS = {
    "iso": f"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[ T]+{CLOCK}",
    "web": rf"\[([0-9]{{2}}/[A-Za-z]{{3}}/[0-9]{{4}}):{CLOCK}",
    "syslog": r"^(?:<[0-9]{1,3}>)?([A-Z][a-z][a-z]) +([0-9]{1,2}) ([0-9:]{8})(?: |$)",
    "level": r"(?i)\b(fatal|critical|error|warning|warn|info|debug)\b",
}
LONG = "SELECT file, generation, line, text FROM given WHERE strlen(text) > $least"
LONGEST_ESCAPE = 6
"""Of a character in JSON."""
EXPECTED = """
CREATE TABLE expected AS
WITH found AS (
    SELECT given.*, modified, regexp_extract(text, $iso, ['d', 'c']) AS iso,
        regexp_extract(text, $web, ['d', 'c']) AS web,
        regexp_extract(text, $syslog, ['m', 'd', 'c']) AS log,
        to_timestamp(modified / 1000) AT TIME ZONE 'UTC' AS written,
        lower(regexp_extract(text, $level)) AS word
    FROM given ASOF JOIN modified m ON given.file = m.file AND given.generation = m.generation
        AND given.line <= m.last
    WHERE (given.file, given.generation, line) NOT IN (FROM too_long)
), years AS (
    SELECT *, try_strptime(concat_ws(' ', year(written), log.m, log.d, log.c), $no_year) AS this,
        try_strptime(concat_ws(' ', year(written) - 1, log.m, log.d, log.c), $no_year) AS former
    FROM found
), timed AS (
    SELECT *, coalesce(try_strptime(iso.d || ' ' || iso.c, '%Y-%m-%d %H:%M:%S'),
        try_strptime(web.d || ' ' || web.c, '%d/%b/%Y %H:%M:%S'),
        CASE WHEN this <= written + INTERVAL 1 DAY THEN this ELSE former END) AS time FROM years
)
SELECT file, generation, line, text, epoch_us(time) AS time, nullif(word, '') AS level,
    coalesce(strftime(time, '%Y-%m-%d'), 'undated') AS day FROM timed
"""
LAKE = """
CREATE TABLE lake AS
SELECT file, generation, line, text, epoch_us(time) AS time, level, day
FROM read_parquet(?, hive_partitioning = true, hive_types = {'day': VARCHAR})
"""
DIFFERENCES = """
SELECT count(*) FROM (
    (SELECT * FROM expected EXCEPT ALL SELECT * FROM lake)
    UNION ALL (SELECT * FROM lake EXCEPT ALL SELECT * FROM expected)
)
"""
BY_FILE = """
SELECT CASE WHEN generation = 1 THEN file ELSE file || ' (' || generation || ')' END,
    count(e.line), count(l.line)
FROM expected e FULL JOIN (SELECT DISTINCT file, generation, line FROM lake) l
    USING (file, generation, line)
GROUP BY file, generation ORDER BY file, generation
"""


def reconcile(shipped: Shipped, lake: Iterable[str]) -> list[Line]:
    """Compare the contents that were sent with the Parquet files of the lake.

    Returns for each content (file, its lines, its different lines in the lake), then all lines that
    were given with those that were loaded or skipped, then the number of lines that differ.
    """
    with duckdb.connect() as database:
        database.execute(
            "CREATE TABLE given (file VARCHAR, generation INT, line BIGINT, text VARCHAR)"
        )
        database.execute("CREATE TABLE too_long (file VARCHAR, generation INT, line BIGINT)")
        database.execute(
            "CREATE TABLE modified (file VARCHAR, generation INT, last BIGINT, modified BIGINT)"
        )
        contents = {(each.file, each.generation): each for each in shipped.contents}
        for key, content in contents.items():
            times = [[*key, *each] for each in content.times]
            database.executemany("INSERT INTO modified VALUES (?, ?, ?, ?)", times)
            _read(database, content)
        long = database.execute(LONG, {"least": VALUE_BYTES_MAX // LONGEST_ESCAPE - 10_000})
        for file, generation, line, text in long.fetchall():
            modified_ms = contents[file, generation].modified_ms(line)
            if len(value_of(file, generation, line, text, modified_ms)) > VALUE_BYTES_MAX:
                database.execute("INSERT INTO too_long VALUES (?, ?, ?)", [file, generation, line])
        database.execute(EXPECTED, {**PATTERNS, "no_year": "%Y %b %d %H:%M:%S"})
        database.execute(LAKE, [[*lake]])
        by_file = cast("list[Line]", database.execute(BY_FILE).fetchall())
        given, loaded, differing = (
            _number(database, query)
            for query in ("SELECT count(*) FROM given", "SELECT count(*) FROM lake", DIFFERENCES)
        )
    unread = shipped.lines_unread
    return [
        *by_file,
        ("all lines that were given", given + unread, loaded + shipped.lines_skipped + unread),
        ("lines that differ from DuckDB's answer", 0, differing),
    ]


def _number(database: duckdb.DuckDBPyConnection, query: str) -> int:
    ((found,),) = database.execute(query).fetchall()
    return int(found)


def _read(database: duckdb.DuckDBPyConnection, content: Content) -> None:
    """Add the lines of a content."""
    before = 0
    for part in _parts(content.path, content.size_bytes):
        text = part.decode("utf-8", "replace")
        database.execute(
            SPLIT,
            {
                "file": content.file,
                "generation": content.generation,
                "before": before,
                "text": text,
            },
        )
        before += text.count("\n") + 1


def _parts(path: Path, size: int) -> Iterator[bytes]:
    """Yield a content in parts that end before a line break, or at the end."""
    rest = bytearray()
    try:
        for block in blocks(path, size):
            rest += block
            cut = rest.rfind(b"\n")
            if len(rest) >= PART_BYTES and cut >= 0:
                yield bytes(rest[:cut])
                del rest[: cut + 1]
    except DamagedError:  # it was damaged when it was sent, too
        pass
    if rest:
        yield bytes(rest.removesuffix(b"\n"))
