"""`odradek topic` against a live broker."""

from __future__ import annotations

import pytest


def test_a_topic_from_creation_to_deletion(odradek, name):
    created = odradek("topic", "create", name, "-p", 3, "-c", "retention.ms=5000")
    assert created.out == f"Created {name} (3 partitions, 1 replica)\n"
    assert name in odradek("topic", "list", "--quiet").lines
    again = odradek("topic", "create", name, code=1)
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert f"odradek topic describe {name}\n" in again.err
    odradek("topic", "create", name, "--if-not-exists")
    altered = odradek("topic", "alter", name, "--partitions", 4)
    assert altered.out == f"{name} now has 4 partitions\n"
    refused = odradek("topic", "alter", name, "--partitions", 4, code=1)
    assert "INVALID_PARTITIONS" in refused.err
    assert odradek("topic", "delete", name, "--yes").out == f"Deleted {name}\n"
    odradek("topic", "delete", name, "--yes", code=1)
    odradek("topic", "delete", name, "--yes", "--if-exists")


def test_what_would_be_created(odradek, name):
    outcome = odradek("topic", "create", name, "--validate-only", "-p", 2)
    assert outcome.out.startswith(f"Could create {name} (2 partitions")
    assert name not in odradek("topic", "list", "-q").lines


def test_one_bad_name_does_not_stop_the_others(odradek, name):
    outcome = odradek("topic", "create", name, "a/b", code=1)
    assert f"Created {name}" in outcome.out
    assert "INVALID_TOPIC_EXCEPTION" in outcome.err
    assert "Hint:" in outcome.err


def test_creation_in_json(odradek, name):
    (created,) = odradek("topic", "create", name, "-p", 2, "--json").json
    assert created["name"] == name
    assert (created["partitions"], created["replication_factor"]) == (2, 1)
    assert len(created["id"]) == 22


def test_lists(odradek, topic):
    odradek("produce", topic, "x", "y")
    (row,) = [line for line in odradek("topic", "list").lines if line.startswith(topic)]
    assert row.split() == [topic, "2", "1"]
    (row,) = [line for line in odradek("topic", "list", "--long").lines if line.startswith(topic)]
    assert row.split()[:4] == [topic, "2", "1", "2"]
    (found,) = [t for t in odradek("topic", "list", "--long", "--json").json if t["name"] == topic]
    assert found["records"] == 2
    assert found["size_bytes"] > 0
    assert found["offline"] == found["under_replicated"] == 0


def test_internal_topics_are_shown_on_request(odradek, topic):
    odradek("produce", topic, "x")
    odradek("consume", topic, "--group", topic)
    assert "__consumer_offsets" not in odradek("topic", "list", "-q").lines
    assert "__consumer_offsets" in odradek("topic", "list", "-q", "--internal").lines


def test_describing(odradek, topic):
    odradek("config", "set", "topic", topic, "retention.ms=777000")
    odradek("produce", topic, "x", "-p", 1)
    while "777000" not in odradek("topic", "describe", topic).out:
        pass  # the broker may learn of the setting a moment later
    described = odradek("topic", "describe", topic)
    fields = dict(line.split(maxsplit=1) for line in described.lines[:5])
    assert fields["Topic"] == topic
    assert fields["Partitions"] == "2, replicas 1"
    assert fields["Records"] == "1"
    assert any(line.split() == ["retention.ms", "777000"] for line in described.lines)
    assert described.lines[-1].split()[0] == "1"
    (found,) = odradek("topic", "describe", topic, "--json").json
    assert found["settings"]["retention.ms"] == "777000"
    assert [p["end_offset"] for p in found["partitions"]] == [0, 1]
    assert found["partitions"][0]["in_sync"] == found["partitions"][0]["replicas"]


def test_describing_what_does_not_exist(odradek, topic):
    outcome = odradek("topic", "describe", topic, "no-such-topic", code=1)
    assert topic in outcome.out
    assert "There is no such topic" in outcome.err
    assert "odradek topic list" in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "describe"],
        ["topic", "delete"],
        ["topic", "alter", "-p", "2"],
        ["topic", "offsets"],
        ["config", "describe", "topic"],
        ["consume"],
    ],
)
def test_what_was_probably_meant(odradek, topic, words):
    outcome = odradek(*words, f"{topic}x", code=1)
    assert "There is no such topic" in outcome.err
    assert f"Did you mean {topic}?" in outcome.err


@pytest.fixture
def filled(odradek, topic):
    """Ten records in partition 0, a second apart from @1000 on."""
    for second in range(1, 11):
        odradek("produce", topic, f"v{second}", "-p", 0, "--timestamp", f"@{second}000")
    return topic


def rows(outcome):
    return [line.split()[1:] for line in outcome.lines[1:]]


def test_offsets(odradek, filled):
    assert rows(odradek("topic", "offsets", filled)) == [
        ["0", "0", "10", "10"],
        ["1", "0", "0", "0"],
    ]
    assert rows(odradek("topic", "offsets", f"{filled}:0")) == [["0", "0", "10", "10"]]
    for position, offset in [("@3500", 3), ("@99999", 10), ("beginning", 0), ("-4", 6), ("7", 7),
                             ("max-timestamp", 9)]:  # fmt: skip
        outcome = odradek("topic", "offsets", f"{filled}:0", "--at", position)
        assert rows(outcome) == [["0", str(offset)]], position
    assert odradek("topic", "offsets", f"{filled}:0", "--json").json == [
        {"topic": filled, "partition": 0, "start": 0, "end": 10, "records": 10}
    ]
    outcome = odradek("topic", "offsets", f"{filled}:7", code=1)
    assert "has no partition 7" in outcome.err


def test_deleting_records(odradek, filled):
    outcome = odradek("topic", "delete-records", filled, "--before", "@4500", "--yes")
    assert outcome.out == f"Deleted 4 records of {filled}\n"
    assert odradek("consume", filled, "--count", 1).out == "v5\n"
    odradek("topic", "delete-records", filled, "--before", "-2", "-p", "0", "--yes")
    assert odradek("consume", filled).out == "v9\nv10\n"
    outcome = odradek("topic", "delete-records", filled, "--before", "end", "--yes", "--json")
    assert outcome.json == [{"topic": filled, "partition": 0, "start": 10}]
    assert odradek("consume", filled).out == ""
