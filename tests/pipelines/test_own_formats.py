"""What a file is, its rows, and that DuckDB finds the same rows in it on its own."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipelines import samples

from odradek.pipelines.inputs import STDIN, files
from odradek.pipelines.own import formats, given, rows
from odradek.pipelines.own.fields import (
    DECIMAL,
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    Field,
    lacking,
    named,
    parse_names,
)
from odradek.pipelines.own.formats import FormatError, Wanted
from odradek.pipelines.own.shipping import Position

FIELDS = (
    Field("who", TEXT, ("user_id", "user.id")),
    Field("time", TIME, ("event_time",)),
    Field("price", DECIMAL, ("price",), is_required=False),
)


def found_in(path, wanted=None, fields=FIELDS):
    """(form, rows, those of DuckDB, its bad lines) of a file."""
    form = formats.find(path, wanted or Wanted())
    listed = list(rows.rows(path, form, [fields[0]]))
    database = given.connect()
    table = given.Given(database, fields)
    last = max((row.number for row in listed), default=0)
    table.add_file(path, form, Position(last))
    table.finish()
    good = database.execute("SELECT * EXCLUDE (file, file_number, valid) FROM rows ORDER BY line")
    typed = good.fetchall()
    bad = database.execute("SELECT line FROM bad ORDER BY line").fetchall()
    return form, listed, typed, [line for (line,) in bad]


CSV = (
    "user_id,event_time,price\n"
    '5,2019-10-01 00:00:00 UTC,"1,5"\n'
    '"a ""b""",1569888000,2.25\n'
    "6,2019-10-01\n"
    "\n"
    '"7,2019-10-01,1\n'
    "8,yesterday,1\n"
)


def test_separated_values(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(CSV)
    form, listed, typed, bad = found_in(path)
    assert (form.kind, form.delimiter, form.has_header) == ("csv", ",", True)
    assert [(row.number, row.key, row.reason) for row in listed] == [
        (2, "5", ""),
        (3, 'a "b"', ""),
        (4, "", "it has 2 values, and the file has 3 columns"),
        (6, "", "its quotes are wrong"),
        (7, "8", ""),
    ]
    assert json.loads(listed[1].value)["user_id"] == 'a "b"'
    assert [(line, who, str(price)) for line, who, _, price in typed] == [
        (2, "5", "None"),
        (3, 'a "b"', "2.2500"),
    ]
    assert bad == [4, 6, 7]


@pytest.mark.parametrize(
    "compress",
    [
        bytes,
        gzip.compress,
        bz2.compress,
        lzma.compress,
        lambda c: pa.compress(c, "zstd", asbytes=True),
    ],
    ids=["plain", "gzip", "bzip2", "xz", "zstd"],
)
@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
def test_compressed_with_any_delimiter_and_line_ends(tmp_path, compress, separator):
    lines = ["\ufeffuser_id,event_time", "5,2019-10-01", "6,2019-10-02"]
    content = "\r\n".join(lines).replace(",", separator)
    path = tmp_path / "file"
    path.write_bytes(compress(content.encode()))
    _, listed, typed, bad = found_in(path)
    assert [row.key for row in listed] == ["5", "6"]
    assert ([who for _, who, *_ in typed], bad) == (["5", "6"], [])


def test_objects_of_json(tmp_path):
    path = tmp_path / "a.jsonl"
    texts = [
        '{"user_id": 5, "event_time": "2019-10-01T00:00:00.123456789+02:00", "price": 1e1}',
        '{"user": {"id": "x"}, "event_time": 1569888000123}',
        '{"user.id": "y", "event_time": 1569888000.5}',
        '{"user_id": 5}',
        '{"user_id": NaN, "event_time": 1}',
        "[1]",
        '{"user_id": 5, "event_time": 1} {}',
        "{",
    ]
    path.write_text("\n".join(texts))
    form, listed, typed, bad = found_in(path)
    assert (form.kind, [row.key for row in listed][:3]) == ("json", ["5", "x", "y"])
    assert [row.value for row in listed] == texts
    assert [(line, who, time.isoformat()) for line, who, time, _ in typed] == [
        (1, "5", "2019-09-30T22:00:00.123456+00:00"),
        (2, "x", "2019-10-01T00:00:00.123000+00:00"),
        (3, "y", "2019-10-01T00:00:00.500000+00:00"),
    ]
    assert bad == [4, 5, 6, 7, 8]


def test_parquet(tmp_path):
    path = tmp_path / "file"
    table = {
        "user_id": pa.array([5, None], pa.int64()),
        "event_time": pa.array([1_569_888_000_000] * 2, pa.timestamp("ms")),
        "price": pa.array(["1.50", None]),
        "more": pa.array([{"a": [1]}, None]),
    }
    pq.write_table(pa.table(table), path)
    form, listed, typed, bad = found_in(path)
    assert (form.kind, [row.key for row in listed]) == ("parquet", ["5", ""])
    assert json.loads(listed[0].value)["more"] == '{"a": [1]}'
    assert [(line, who, time.year, str(price)) for line, who, time, price in typed] == [
        (1, "5", 2019, "1.5000")
    ]
    assert bad == [2]


def test_movielens(tmp_path):
    path = tmp_path / "ratings.dat"
    path.write_text("1::1193::5::978300760\n1::661::3.5::978302109\n1::914\nx::1::2::3\n")
    names = ("UserID", "MovieID", "Rating", "Timestamp")
    fields = (Field("user", INTEGER, ("UserID",)), Field("rating", NUMBER, ("Rating",)))
    form, listed, typed, bad = found_in(path, Wanted(default_columns=names), fields)
    assert (form.delimiter, form.columns, form.has_header) == ("::", names, False)
    assert ([row.key for row in listed], bad) == (["1", "1", "", "x"], [3, 4])
    assert typed == [(1, 1, 5.0), (2, 1, 3.5)]


def test_columns_that_a_person_names(tmp_path):
    path = tmp_path / "a"
    path.write_text("5;2019-10-01\n")
    form = formats.find(path, Wanted(columns=("u", "t")))
    assert (form.columns, form.has_header) == (("u", "t"), False)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\0\1\2\3" * 9, "it is not text"),
        (b"", "it is empty"),
        (b" \n\n", "it is empty"),
        (b"PAR1x", "it is no Parquet file"),
    ],
)
def test_what_is_no_data(tmp_path, content, reason):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=reason):
        formats.find(path, Wanted())


def test_the_standard_input_is_stored_once(tmp_path, monkeypatch):
    for content in (b"first", b"second"):  # the second time is that of a run that continues
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        (path,) = files([STDIN], tmp_path / "input")
        assert path.read_bytes() == b"first"


def test_names_of_columns(tmp_path):
    file = tmp_path / "columns.json"
    file.write_text('{"who": "uid"}')
    names = parse_names([str(file), "time = at,price=cost"])
    assert names == {"who": "uid", "time": "at", "price": "cost"}
    assert [each.columns for each in named(FIELDS, names)] == [("uid",), ("at",), ("cost",)]
    assert [each.name for each in lacking(FIELDS, ["user", "x"])] == ["time"]
    for text, error in (
        ("who=", "write NAME=COLUMN"),
        ("gone.json", "neither"),
        ("x=1,", "write NAME"),
    ):
        with pytest.raises(ValueError, match=error):
            parse_names([text])
    with pytest.raises(ValueError, match="there are who, time, price"):
        named(FIELDS, {"whom": "x"})


@pytest.mark.parametrize("name", ["shop.csv.gz", "ratings.csv", "ratings.dat"])
def test_python_and_duckdb_find_the_same_rows(tmp_path, name):
    path = tmp_path / name
    if name.startswith("shop"):
        bad_count = samples.shop_events(path, 3000)
        fields = FIELDS
    else:
        bad_count = samples.ratings(path, 3000)
        fields = (
            Field("user", INTEGER, ("userId", "UserID")),
            Field("film", INTEGER, ("movieId", "MovieID")),
            Field("rating", NUMBER, ("rating", "Rating")),
        )
    names = ("UserID", "MovieID", "Rating", "Timestamp")
    _, listed, typed, bad = found_in(path, Wanted(default_columns=names), fields)
    assert len(bad) == bad_count > 10
    assert len(listed) == 3000 == len(typed) + len(bad)
    assert {row.number for row in listed if row.reason} <= set(bad)
