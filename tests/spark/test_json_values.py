"""JSON values to structs and back, in bulk: as Python's json has it, value by value."""

from __future__ import annotations

import json
import math
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.spark.json_decoding import JsonDecoder
from odradek.spark.json_encoding import encode

ROW = pa.struct(
    [
        ("a", pa.int64()),
        ("s", pa.string()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("l", pa.list_(pa.field("element", pa.int32()))),
        ("n", pa.struct([("x", pa.string()), ("m", pa.list_(pa.field("element", pa.string())))])),
    ]
)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
nested = st.fixed_dictionaries(
    {"x": st.none() | text, "m": st.none() | st.lists(st.none() | text, max_size=3)}
)
row = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": st.none() | text,
        "d": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "b": st.none() | st.booleans(),
        "l": st.none() | st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=3),
        "n": st.none() | nested,
    }
)
BAD = (
    b"",
    b" ",
    b"{",
    b"null",
    b"[1]",
    b'{"a": 1}{"a": 2}',
    b'{"a": "}',
    b'{":1}',
    b'{"n": {"x": "1"}',
    b'{"a": "text"}',
    b'{"a": 1.5}',
    b'{"l": [3000000000]}',
    b"\xff{}",
)
LAYOUTS = ({}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False})
written = st.builds(
    lambda value, layout, before, after: before + json.dumps(value, **layout).encode() + after,
    row,
    st.sampled_from(LAYOUTS),
    st.sampled_from([b"", b" ", b"\n"]),
    st.sampled_from([b"", b"\r\n"]),
)


def decoded_one_by_one(value):
    return None if value is None or value in BAD else json.loads(value)


@given(st.lists(st.none() | written | st.sampled_from(BAD), max_size=12))
def test_values_are_decoded_as_one_by_one(values):
    decoded = JsonDecoder(ROW).decode(pa.array(values, pa.binary()))
    assert decoded.rows.to_pylist() == [decoded_one_by_one(value) for value in values]
    bad = [number for number, value in enumerate(values) if value in BAD]
    assert decoded.bad.nonzero()[0].tolist() == sorted(decoded.reasons) == bad


@given(st.lists(st.none() | row, min_size=1, max_size=12))
def test_rows_are_encoded_and_come_back(rows):
    texts = encode(pa.array(rows, ROW))
    found = [None if each is None else json.loads(each) for each in texts.to_pylist()]
    without_nulls = [None if each is None else present(each) for each in rows]
    assert found == without_nulls
    assert JsonDecoder(ROW).decode(texts.cast(pa.binary())).rows.to_pylist() == rows


def present(value):
    """Without the fields that are null."""
    if isinstance(value, dict):
        return {name: present(each) for name, each in value.items() if each is not None}
    return value


def test_fields_that_are_missing_or_unknown():
    decoded = JsonDecoder(ROW).decode(pa.array([b'{"z": {"a": [1]}, "s": "x"}'], pa.binary()))
    nothing = dict.fromkeys(("a", "s", "d", "b", "l", "n"))
    assert decoded.rows.to_pylist() == [nothing | {"s": "x"}]


def test_dates_and_times():
    kind = pa.struct(
        [("t", pa.timestamp("us", "UTC")), ("u", pa.timestamp("us")), ("d", pa.date32())]
    )
    aware = datetime(2026, 11, 22, 12, 0, 0, 250_000, UTC)
    noon = aware.replace(tzinfo=None)
    values = [
        b'{"t": "2026-11-22T12:00:00.250Z", "u": "2026-11-22T12:00:00.250", "d": "2026-11-22"}',
        b'{"t": "2026-11-22T14:00:00.250+02:00"}',
        b'{"t": "2026-11-22 12:00:00.25"}',
        b"{}",
        b'{"t": "noon"}',
        b'{"d": "2026-13-01"}',
        b'{"u": 5}',
    ]
    decoded = JsonDecoder(kind).decode(pa.array(values, pa.binary()))
    rows = decoded.rows.to_pylist()
    assert rows[0] == {"t": aware, "u": noon, "d": date(2026, 11, 22)}
    assert [rows[1]["t"], rows[2]["t"], rows[3]["t"]] == [aware, aware, None]
    assert rows[4:] == [None] * 3
    assert sorted(decoded.reasons) == [4, 5, 6]
    again = JsonDecoder(kind).decode(encode(decoded.rows).cast(pa.binary()))
    assert again.rows.to_pylist() == rows


TIMED = pa.struct([("t", pa.timestamp("us", "UTC")), ("l", pa.list_(pa.timestamp("us", "UTC")))])


@pytest.mark.parametrize("unit_us", [1_000_000, 1000, 1])
def test_times_that_are_numbers(unit_us):
    noon = datetime(2026, 11, 22, 12, tzinfo=UTC)
    number = int(noon.timestamp()) * 1_000_000 // unit_us
    given = [
        {"t": number},
        {"t": None, "l": [number, None]},
        {"t": "2026-11-22T12:00:00Z", "l": [number]},
        {"t": number, "l": ["2026-11-22 12:00:00"]},
        {"t": 1.5},
        {"t": True},
        {"t": 2**62},
        {"t": f"{number}"},
    ]
    values = pa.array([json.dumps(each).encode() for each in given], pa.binary())
    decoded = JsonDecoder(TIMED, unit_us).decode(values)
    assert decoded.rows[:4].to_pylist() == [
        {"t": noon, "l": None},
        {"t": None, "l": [noon, None]},
        {"t": noon, "l": [noon]},
        {"t": noon, "l": [noon]},
    ]
    bad = {4, 5, 7} if unit_us == 1 else {4, 5, 6, 7}
    assert set(decoded.reasons) == bad


def test_nanoseconds_are_cut():
    kind = pa.struct([("t", pa.timestamp("us", "UTC")), ("u", pa.timestamp("us"))])
    values = [
        b'{"t": "2026-11-28T01:02:03.123456789Z", "u": "2026-11-28T01:02:03.123456999"}',
        b'{"t": "2026-11-28T03:02:03.1234567+02:00"}',
        b'{"t": "2026-11-28 01:02:03.1234569"}',
    ]
    rows = JsonDecoder(kind).decode(pa.array(values, pa.binary())).rows.to_pylist()
    time = datetime(2026, 11, 28, 1, 2, 3, 123456, UTC)
    assert [row["t"] for row in rows] == [time] * 3
    assert rows[0]["u"] == time.replace(tzinfo=None)


def test_decimals_are_rounded_half_up():
    kind = pa.struct([("d", pa.decimal128(10, 2))])
    good = ["1.005", "-1.005", '"1.5"', "1e3", "5", "99999999.994", "null", "0.1"]
    bad = ["99999999.995", "123456789", '"x"', "true", "1e40"]
    values = pa.array([b'{"d": %s}' % each.encode() for each in good + bad], pa.binary())
    decoded = JsonDecoder(kind).decode(values)
    expected = ["1.01", "-1.01", "1.50", "1000.00", "5.00", "99999999.99", None, "0.10"]
    found = [row["d"] for row in decoded.rows.to_pylist()[: len(good)]]
    assert found == [None if each is None else Decimal(each) for each in expected]
    assert set(decoded.reasons) == {len(good) + n for n in range(len(bad))}


def test_maps():
    kind = pa.struct(
        [
            ("m", pa.map_(pa.string(), pa.int32())),
            ("a", pa.int64()),
            ("t", pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
            ("d", pa.map_(pa.string(), pa.decimal128(20, 19))),
        ]
    )
    good = [
        b'{"a": 1, "m": {"x": 1, "\xc3\xa9": null}, "z": {"y": [1.5]}}',
        b'{"m": {}}',
        b'{"m": null, "t": {"s": "2026-11-28T00:00:00Z", "n": 0}}',
        b'{"d": {"x": 1.0000000000000000001}}',
    ]
    bad = [b'{"m": {"x": "1"}}', b'{"m": {"x": 1.5}}', b'{"m": [1]}', b'{"a": "x", "m": {}}']
    decoder = pickle.loads(pickle.dumps(JsonDecoder(kind)))
    decoded = decoder.decode(pa.array([*good[:2], bad[0], *good[2:], *bad[1:]], pa.binary()))
    assert set(decoded.reasons) == {2, 5, 6, 7}
    rows = [row for row in decoded.rows.to_pylist() if row is not None]
    nothing = dict.fromkeys(("m", "a", "t", "d"))
    times = [("s", datetime(2026, 11, 28, tzinfo=UTC)), ("n", datetime(1970, 1, 1, tzinfo=UTC))]
    assert rows == [
        nothing | {"a": 1, "m": [("x", 1), ("é", None)]},
        nothing | {"m": []},
        nothing | {"t": times},
        nothing | {"d": [("x", Decimal("1.0000000000000000001"))]},
    ]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(math.nan, '{"d":"NaN"}'), (-math.inf, '{"d":"-Infinity"}'), (math.inf, '{"d":"Infinity"}')],
)
def test_numbers_that_json_does_not_have(number, expected):
    rows = pa.array([{"d": number}, {"d": 1.5}, {"d": None}], pa.struct([("d", pa.float64())]))
    assert encode(rows).to_pylist() == [expected, '{"d":1.5}', "{}"]


def test_the_text_of_rows_with_and_without_nulls():
    kind = pa.struct(
        [
            ("a", pa.int64()),
            ("t", pa.timestamp("us", "UTC")),
            ("u", pa.timestamp("us")),
            ("d", pa.date32()),
            ("e", pa.struct([])),
        ]
    )
    before = datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
    after = datetime(9999, 12, 31, 1, tzinfo=UTC).replace(tzinfo=None)
    full = {"a": 1, "t": before, "u": after, "d": date(1, 1, 2), "e": {}}
    text = (
        '{"a":1,"t":"1969-12-31T23:59:59.999999Z","u":"9999-12-31T01:00:00.000000",'
        '"d":"0001-01-02","e":{}}'
    )
    without_a = text.replace('"a":1,', "")
    assert encode(pa.array([full, full], kind)).to_pylist() == [text, text]
    rows = [full, full | {"a": None}, dict.fromkeys(full), None]
    assert encode(pa.array(rows, kind)).to_pylist() == [text, without_a, "{}", None]


def test_a_part_of_a_column_is_encoded():
    rows = pa.array([{"l": [n, n], "s": f'"{n}"'} for n in range(5)], pa.struct([ROW[4], ROW[1]]))
    texts = encode(rows.slice(2, 2)).to_pylist()
    assert [json.loads(each) for each in texts] == rows.slice(2, 2).to_pylist()
