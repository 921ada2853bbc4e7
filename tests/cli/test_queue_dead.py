"""`odradek queue dead` against a live broker."""

from __future__ import annotations

import pytest
from tests.cli.test_queue import SETTINGS

from odradek.model.topic_partition import TopicPartition
from odradek.operations.dead_letters import PREFIX, parse
from odradek.records.record import Record
from odradek.testing import Broker


@pytest.fixture(scope="module")
def bootstrap():
    with Broker(settings=SETTINGS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def queue(odradek, name):
    """A topic with a dead letter queue, and a group with its name. v1 and v3 are rejected."""
    odradek("cluster", "feature", "share.version=2")
    odradek("topic", "create", name, "--partitions", 1)
    setting = "errors.deadletterqueue.group.enable=true"
    odradek("topic", "create", f"dlq.{name}", "--partitions", 1, "--config", setting)
    odradek("config", "set", "group", name, f"errors.deadletterqueue.topic.name=dlq.{name}")
    odradek("produce", name, "--key", "k", *(f"v{number}" for number in range(4)))
    return name


def reject(odradek, queue, count=4):
    """Work off records: reject those with an odd number."""
    command = "read value; case $value in v1|v3) exit 65;; esac"
    odradek(
        "queue", "work", queue, queue, "--from", "earliest", "--idle", "10s", "--count", count,
        "--run", command, "--reject-on", 65,
    )  # fmt: skip
    while odradek("queue", "describe", queue, "--json").json[0]["partitions"][0]["lag"]:
        pass


def test_list_show_and_replay(odradek, queue):
    reject(odradek, queue)
    (row,) = [line for line in odradek("queue", "dead", "list").lines if line.startswith(queue)]
    assert row.split()[:6] == [queue, f"dlq.{queue}", "2", "2", "2", "0"]
    shown = odradek("queue", "dead", "show", queue).lines
    assert shown[1].split()[:4] == [f"dlq.{queue}-0@0", f"{queue}-0@1", "1", "rejected"]
    assert [line.split()[-2:] for line in shown[1:]] == [["k", "v1"], ["k", "v3"]]
    (newest,) = odradek("queue", "dead", "show", queue, "--count", 1, "--json").json
    record = {"topic": queue, "partition": 0, "offset": 3, "is_found": True, "key": "k"}
    assert newest["record"] == {**record, "value": "v3", "headers": []}
    assert (newest["cause"], newest["is_copied"]) == ("Offset rejected by client.", False)
    assert odradek("queue", "dead", "show", queue, "--topic", "other").out == ""

    dry = odradek("queue", "dead", "replay", queue)
    assert dry.lines[1].split() == [queue, "0", "2", "0"]
    assert "--execute" in dry.err
    first = odradek("queue", "dead", "replay", queue, "--count", 1, "--execute", "--json").json
    assert first == [{"topic": queue, "partition": 0, "records": 1, "gone": 0}]
    assert odradek("queue", "dead", "list", queue, "--json").json[0]["waiting"] == 1
    odradek("queue", "dead", "replay", queue, "--execute")
    assert "No dead letters" in odradek("queue", "dead", "replay", queue, "--execute").err
    assert odradek("consume", queue, "--from", "4").lines == ["v1", "v3"]
    reject(odradek, queue, 2)
    assert odradek("queue", "dead", "list", queue, "--json").json[0]["letters"] == 4
    odradek("queue", "dead", "replay", queue, "--again", "--to", f"dlq.{queue}", "--execute")
    assert odradek("topic", "offsets", f"dlq.{queue}", "--json").json[0]["end"] == 8


def test_a_record_that_is_gone(odradek, queue):
    reject(odradek, queue)
    odradek("topic", "delete-records", queue, "--before", "2", "--yes")
    assert "(gone)" in odradek("queue", "dead", "show", queue).out
    replayed = odradek("queue", "dead", "replay", queue, "--execute")
    assert replayed.lines[1].split() == [queue, "0", "1", "1"]
    assert "1 record cannot be replayed" in replayed.err


def test_copied_records_are_replayed_with_their_headers(odradek, queue):
    setting = "errors.deadletterqueue.copy.record.enable=true"
    odradek("config", "set", "group", queue, setting)
    reject(odradek, queue)
    odradek("topic", "delete-records", queue, "--before", "4", "--yes")
    (first, _) = odradek("queue", "dead", "show", queue, "--json").json
    assert (first["is_copied"], first["record"]["value"]) == (True, "v1")
    odradek("queue", "dead", "replay", queue, "--execute")
    assert odradek("consume", queue, "--from", "beginning").lines == ["v1", "v3"]


def test_a_group_without_dead_letters(odradek, name):
    told = odradek("queue", "dead", "show", name, code=1).err
    assert f"errors.deadletterqueue.topic.name=dlq.{name}" in told
    assert "no dead letter topic" in odradek("queue", "dead", "list", name).err
    odradek("config", "set", "group", name, "errors.deadletterqueue.topic.name=dlq.not.there")
    assert "no dead letters" in odradek("queue", "dead", "show", name).err


@pytest.mark.parametrize(
    "headers", [(), (("topic", b"t"),), (("topic", b"t"), ("partition", b"x"))]
)
def test_other_records_are_no_dead_letters(headers):
    record = Record(0, 0, None, b"v", tuple((PREFIX + name, each) for name, each in headers))
    assert parse(TopicPartition("dlq.t", 0), record) is None
