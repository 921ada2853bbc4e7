"""The programs of Kafka's system tests with our own client: their events, and their end after SIGTERM."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.child import Child

from odradek.testing import Broker

ROOT = Path(__file__).parents[2]
Event = dict[str, Any]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with Broker(topics={"t": 2, "copy": 2}, settings=settings) as broker:
        yield broker


def command(program: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "compat.verifiable", program, *words]


def run(program: str, *words: str) -> list[Event]:
    done = subprocess.run(
        command(program, *words), cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def running(program: str, *words: str) -> Iterator[tuple[Iterator[Event], list[Event]]]:
    """A program that ends with SIGTERM: the events that it prints, and those after the signal."""
    with Child(command(program, *words), talks=True, directory=ROOT) as child:
        rest: list[Event] = []
        yield (json.loads(line) for line in child.lines()), rest
        child.signal(signal.SIGTERM)
        rest += [json.loads(line) for line in child.lines()]
        assert child.wait() == 0


def until(events: Iterator[Event], name: str, count: int) -> list[Event]:
    """Events until those of a name have so many records."""
    found: list[Event] = []
    for each in events:
        found.append(each)
        if sum(e.get("count", 1) for e in found if e["name"] == name) >= count:
            return found
    raise AssertionError(f"the program has ended: {found}")


def names(events: list[Event]) -> list[str]:
    return [each.get("name", "") for each in events]


def test_all_programs(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    words = ("--topic", "t", "--bootstrap-server", servers)
    options = ("--value-prefix", "7", "--repeating-keys", "3", "--message-create-time", "1000")
    written = run("producer", *words, "--max-messages", "50", *options)
    assert names(written) == [
        "startup_complete",
        *["producer_send_success"] * 50,
        "shutdown_complete",
        "tool_data",
    ]
    assert list(written[1]) == ["timestamp", "name", "key", "value", "topic", "partition", "offset"]
    assert sorted(each["value"] for each in written[1:51]) == sorted(f"7.{n}" for n in range(50))
    assert {each["key"] for each in written[1:51]} == {"0", "1", "2"}
    assert (written[-1]["sent"], written[-1]["acked"]) == (50, 50)

    with running("consumer", *words, "--group-id", "g", "--verbose") as (events, rest):
        read = until(events, "offsets_committed", 1)
        while sum(each.get("count", 0) for each in read) < 50:
            read += until(events, "offsets_committed", 1)
    assert names(read)[:2] == ["startup_complete", "partitions_assigned"]
    assert read[1]["partitions"] == [{"topic": "t", "partition": n} for n in range(2)]
    values = {each["value"] for each in read if each["name"] == "record_data"}
    assert values == {f"7.{n}" for n in range(50)}
    assert all(each["success"] for each in read if each["name"] == "offsets_committed")
    assert names(rest)[-2:] == ["partitions_revoked", "shutdown_complete"]

    share = ("--group-id", "s", "--offset-reset-strategy", "earliest", "--max-messages", "50")
    shared = run("share-consumer", *words, *share)
    assert names(shared)[:2] == ["startup_complete", "offset_reset_strategy_set"]
    assert shared[1]["offsetResetStrategy"] == "earliest"
    offsets = [
        (part["partition"], offset)
        for each in shared
        if each["name"] == "offsets_acknowledged" and each["success"]
        for part in each["partitions"]
        for offset in part["offsets"]
    ]
    assert len(offsets) == len(set(offsets)) == 50
    assert names(shared)[-1] == "shutdown_complete"


def test_the_copier_copies_each_record_once(broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    broker.create_topics({"from": 1})
    run("producer", "--topic", "from", "--bootstrap-server", servers, "--max-messages", "60")
    words = ("--input-topic", "from", "--input-partition", "0", "--output-topic", "copy")
    more = ("--broker-list", servers, "--transactional-id", "c", "--consumer-group", "c")
    size = ("--transaction-size", "7", "--enable-random-aborts", "--use-group-metadata")
    copied = run("copier", *words, *more, *size)
    assert copied[0]["progress"] == copied[-1]["shutdown_complete"] == "c"
    assert copied[0]["stage"] == "ProcessLoop"
    assert (copied[-1]["totalProcessed"], copied[-1]["remaining"]) == (60, 0)
    reader = ("--topic", "copy", "--bootstrap-server", servers, "--group-id", "r", "--verbose")
    config = tmp_path / "consumer.properties"
    config.write_text("isolation.level=read_committed\n")
    read = run("consumer", *reader, "--max-messages", "60", "--command-config", str(config))
    values = [each["value"] for each in read if each["name"] == "record_data"]
    assert values == [str(number) for number in range(60)]


def test_a_broker_that_cannot_be_reached() -> None:
    words = ("--topic", "t", "--bootstrap-server", "127.0.0.1:1", "--max-messages", "1")
    events = run("producer", *words)
    assert names(events) == [
        "startup_complete",
        "producer_send_error",
        "shutdown_complete",
        "tool_data",
    ]
    assert events[1]["exception"] == "class UnreachableError"
