"""Records as `consume` writes them, and as `produce` reads them."""

from __future__ import annotations

import json
import os
import threading

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.record_input import InputError, json_parser, read_lines, text_parser
from odradek.cli.rendering import TextColumns, make_renderer
from odradek.model.topic_partition import TopicPartition
from odradek.records.record import Record

KEY = TopicPartition("t", 3)
RECORD = Record(42, 1_700_000_000_123, b"k", b"v", (("a", b"1"), ("b", None)))
NOTHING = TextColumns()


def rendered(form, record=RECORD, columns=NOTHING, separator=r"\t", null="null"):
    return make_renderer(form, columns, separator, null)(KEY, record).decode()


def test_text():
    assert rendered("text") == "v\n"
    assert rendered("text", RECORD._replace(value=None)) == "null\n"
    assert rendered("text", RECORD._replace(value=None), null="") == "\n"
    columns = TextColumns(offsets=True, keys=True, headers=True)
    assert rendered("text", columns=columns) == "t-3@42\ta=1,b=null\tk\tv\n"
    assert rendered("text", columns=TextColumns(keys=True), separator="=") == "k=v\n"
    assert rendered("text", columns=TextColumns(timestamps=True)).startswith("2023-11-1")


def test_templates():
    assert rendered(r"{offset}\t{key}: {value}\n") == "42\tk: v\n"
    assert rendered("{topic}/{partition} {timestamp_ms} {key_size} {value_size}") == (
        "t/3 1700000000123 1 1"
    )
    assert rendered("{value_size}", RECORD._replace(value=None)) == "-1"
    assert rendered("{{value}}") == "{v}"


def test_values_are_not_templates():
    assert rendered("{value}{key}", RECORD._replace(value=b"{key}")) == "{key}k"


@pytest.mark.parametrize("form", ["value", "{nothing}", "{}"])
def test_formats_that_there_are_not(form):
    with pytest.raises(click.UsageError):
        rendered(form)


def test_json():
    assert json.loads(rendered("json")) == {
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "timestamp": "2023-11-14T22:13:20.123Z",
        "timestamp_ms": 1_700_000_000_123,
        "key": "k",
        "value": "v",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
    }


DATA = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)
HEADERS = st.lists(st.tuples(st.text(max_size=5), DATA), max_size=3).map(tuple)


@given(DATA, DATA, HEADERS, st.integers(0, 2**40))
def test_json_is_read_back(key, value, headers, timestamp):
    record = json_parser(rendered("json", Record(1, timestamp, key, value, headers)).encode())
    assert (record.key, record.value, record.headers) == (key, value, headers)
    assert (record.partition, record.timestamp_ms) == (3, timestamp)


def test_json_written_by_hand():
    record = json_parser(b'{"value": {"a": [1, "\xc3\xa9"]}, "key": 5, "headers": {"h": "x"}}')
    assert record.value == '{"a":[1,"é"]}'.encode()
    assert record.key == b"5"
    assert record.headers == (("h", b"x"),)
    assert record.partition is record.timestamp_ms is None
    assert json_parser(b'{"timestamp": "1970-01-01T00:00:01Z"}').timestamp_ms == 1000
    assert json_parser(b'{"timestamp": 5}').timestamp_ms == 5


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"5",
        b"{",
        b'{"value_base64": "*"}',
        b'{"value_base64": 5}',
        b'{"partition": -1}',
        b'{"partition": "0"}',
        b'{"headers": "h"}',
        b'{"headers": [5]}',
        b'{"headers": [{"value": "x"}]}',
        b'{"timestamp": "soon"}',
    ],
)
def test_json_that_is_no_record(line):
    with pytest.raises(InputError):
        json_parser(line)


def test_lines_of_text():
    parse = text_parser(b"k", None, (("h", b"1"),), b"NULL")
    assert parse(b"x").key == b"k"
    assert parse(b"x").headers == (("h", b"1"),)
    assert parse(b"NULL").value is None
    split = text_parser(None, b"::", (), b"NULL")
    assert (split(b"a::b::c").key, split(b"a::b::c").value) == (b"a", b"b::c")
    assert (split(b"NULL::").key, split(b"NULL::").value) == (None, b"")
    with pytest.raises(InputError, match="no key separator '::'"):
        split(b"a")


@given(st.binary(max_size=200))
def test_lines_are_cut_at_line_ends(data):
    receiver, sender = os.pipe()
    os.write(sender, data)
    os.close(sender)
    lines = list(read_lines(receiver, lambda: None))
    os.close(receiver)
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert lines == [line.removesuffix(b"\r") for line in expected[:-1]] + [
        line if not data.endswith(b"\n") else line.removesuffix(b"\r") for line in expected[-1:]
    ]


def test_before_waiting_for_input_what_was_read_is_sent():
    receiver, sender = os.pipe()
    waits = []
    lines = read_lines(receiver, lambda: waits.append(1))
    os.write(sender, b"one\ntwo\n")
    assert next(lines) == b"one"
    assert next(lines) == b"two"
    assert not waits
    timer = threading.Timer(0.05, os.write, (sender, b"three\n"))
    timer.start()
    assert next(lines) == b"three"
    assert waits
    timer.join()
    os.close(sender)
    assert list(lines) == []
    os.close(receiver)
