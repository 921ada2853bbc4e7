"""`odradek produce` and `odradek consume` against a live broker."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "odradek"]


def test_there_and_back(odradek, topic):
    odradek("produce", topic, "one", "two", "-p", 0)
    assert odradek("consume", topic).lines == ["one", "two"]
    assert odradek("consume", topic, "--count", 1).lines == ["one"]
    assert odradek("consume", f"{topic}:1").lines == []


def test_all_parts_of_a_record(odradek, topic):
    odradek(
        "produce", topic, "v", "-k", "key", "-H", "a=1", "-H", "b", "-p", 1, "--timestamp", "@5000"
    )  # fmt: skip
    line = odradek("consume", topic, "-k", "-H", "-o", "-s", "|").out
    assert line == f"{topic}-1@0|a=1,b=null|key|v\n"
    document = odradek("consume", topic, "--format", "json").json
    assert odradek("consume", topic, "--json").json == document
    assert document["timestamp_ms"] == 5000
    assert document["headers"] == [{"name": "a", "value": "1"}, {"name": "b", "value": None}]
    assert odradek("consume", topic, "--format", "{key}={value};").out == "key=v;"


def test_nulls(odradek, topic):
    odradek("produce", topic, "NULL", "", "-k", "NULL", "--null", "NULL", "-p", 0)
    assert odradek("consume", topic, "--keys").lines == ["null\tnull", "null\t"]


def test_where_records_went(odradek, topic):
    assert odradek("produce", topic, "a", "b", "-p", 1, "-v").lines == [
        f"{topic}-1@0",
        f"{topic}-1@1",
    ]
    outcome = odradek("produce", topic, "c", "-p", 1, "--json")
    assert outcome.json == {"topic": topic, "partition": 1, "offset": 2}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression(odradek, topic, codec):
    odradek("produce", topic, "x" * 5000, "-z", codec)
    assert odradek("consume", topic).lines == ["x" * 5000]


@pytest.mark.parametrize("acks", ["all", "1"])
def test_acknowledgements(odradek, topic, acks):
    odradek("produce", topic, "x", "--acks", acks)
    assert odradek("consume", topic).lines == ["x"]


def test_a_topic_that_does_not_exist(odradek, name):
    outcome = odradek("produce", name, "x", "--no-create", code=1)
    assert "There is no such topic" in outcome.err
    assert f"odradek topic create {name}" in outcome.err
    outcome = odradek("consume", name, code=1)
    assert "There is no such topic" in outcome.err
    outcome = odradek("consume", name, "--group", name, code=1)
    assert "There is no such topic" in outcome.err


def test_a_record_that_is_too_large(odradek, topic):
    odradek("config", "set", "topic", topic, "max.message.bytes=100")
    while "max.message.bytes" not in odradek("config", "describe", "topic", topic).out:
        pass  # the broker may learn of the setting a moment later
    outcome = odradek("produce", topic, "x" * 500, code=1)
    assert "1 record was not written" in outcome.err
    assert "max.message.bytes" in outcome.err


@pytest.fixture
def filled(odradek, topic):
    """Ten records in partition 0, a second apart from @1000 on."""
    for second in range(1, 11):
        odradek("produce", topic, f"v{second}", "-p", 0, "--timestamp", f"@{second}000")
    return topic


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ([], 1, 10),
        (["--from", "4"], 5, 10),
        (["--from", "@4500"], 5, 10),
        (["--last", "3"], 8, 10),
        (["--from", "-3"], 8, 10),
        (["--until", "4"], 1, 4),
        (["--until", "@4500"], 1, 4),
        (["--from", "2", "--until", "5"], 3, 5),
        (["--from", "2", "--count", "2"], 3, 4),
        (["--from", "0", "--isolation", "read_committed"], 1, 10),
    ],
)
def test_where_to_begin_and_end(odradek, filled, options, first, last):
    expected = [f"v{second}" for second in range(first, last + 1)]
    assert odradek("consume", filled, *options).lines == expected


def test_following_up_to_an_offset(odradek, filled):
    outcome = odradek("consume", f"{filled}:0", "--until", "8", "--follow")
    assert outcome.lines == [f"v{second}" for second in range(1, 9)]


def test_at_the_end_there_is_nothing(odradek, filled):
    assert odradek("consume", filled, "--from", "end").out == ""


def test_a_group_goes_on_where_it_left_off(odradek, filled, name):
    assert odradek("consume", filled, "-g", name, "-n", 3).lines == ["v1", "v2", "v3"]
    assert odradek("consume", filled, "-g", name, "--no-commit", "-n", 2).lines == ["v4", "v5"]
    assert odradek("consume", filled, "-g", name).lines == [f"v{n}" for n in range(4, 11)]
    assert odradek("consume", filled, "-g", name).lines == []
    outcome = odradek("consume", filled, "-g", name + "2", "--from", "4", code=2)
    assert "reset-offsets" in outcome.err


def produce(bootstrap, topic, data, *options):
    command = [*COMMAND, "-b", bootstrap, "produce", topic, *options]
    return subprocess.run(command, input=data, capture_output=True, check=False)


def test_lines_of_the_input(odradek, topic, bootstrap):
    done = produce(bootstrap, topic, b"one\ntwo\r\n\nfour", "-p", "0")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert odradek("consume", topic).out == "one\ntwo\n\nfour\n"


def test_keys_in_the_input(odradek, topic, bootstrap):
    produce(bootstrap, topic, b"a\t1\nb\t2\n", "-K", r"\t", "-p", "0")
    assert odradek("consume", topic, "--keys").lines == ["a\t1", "b\t2"]


def test_a_bad_line_ends_it_after_those_before(odradek, topic, bootstrap):
    done = produce(bootstrap, topic, b"a:1\nb:2\nc\nd:4\n", "-K", ":", "-p", "0")
    assert done.returncode == 1
    told = b"line 3: there is no key separator ':' (2 records written before it, nothing after)"
    assert told in done.stderr
    assert odradek("consume", topic).lines == ["1", "2"]


def test_json_from_one_topic_to_another(odradek, topic, bootstrap):
    odradek("produce", topic, "v", "-k", "k", "-H", "a=1", "-p", 1, "--timestamp", "@777")
    written = odradek("consume", topic, "--format", "json").out
    done = produce(bootstrap, topic, written.encode(), "--format", "json", "--json")
    assert json.loads(done.stdout) == {"topic": topic, "partition": 1, "offset": 1}
    first, second = (
        json.loads(line) for line in odradek("consume", topic, "--format", "json").lines
    )
    assert {**first, "offset": 1} == second


def test_json_into_a_topic_with_fewer_partitions(odradek, topic, name, bootstrap):
    odradek("produce", topic, "v", "-k", "k", "-p", 1)
    written = odradek("consume", topic, "--format", "json").out.encode()
    small = f"{name}-small"
    odradek("topic", "create", small, "--partitions", 1)
    refused = produce(bootstrap, small, written, "--format", "json")
    assert refused.returncode == 1
    assert b"has no partition 1" in refused.stderr
    assert b"--repartition" in refused.stderr
    assert produce(bootstrap, small, written, "--format", "json", "--repartition").returncode == 0
    assert odradek("consume", small, "-k").lines == ["k\tv"]
    odradek("topic", "delete", small, "--yes")


def test_words_that_are_no_text(odradek, topic, bootstrap):
    words = [b"-p", b"0", b"-k", b"\xfe", b"\xff"]
    done = subprocess.run([*COMMAND, "-b", bootstrap, "produce", topic, *words], check=True)
    assert done.returncode == 0
    document = odradek("consume", topic, "--format", "json").json
    assert (document["key_base64"], document["value_base64"]) == ("/g==", "/w==")


def test_bytes_that_are_no_text(odradek, topic, bootstrap):
    data = bytes(range(256)).replace(b"\n", b"").replace(b"\r", b"")
    produce(bootstrap, topic, data)
    command = [*COMMAND, "-b", bootstrap, "consume", topic]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == data + b"\n"
