"""Requests to a distributed worker, and what it has written to its three topics afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.connect.distributed_lab import Caller, until
from tests.connect.rest_script import SINK, SOURCE

from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends, records_of
from odradek.core.connect.java_text import json_bytes
from odradek.model.topic_partition import TopicPartition

RECORDED = Path(__file__).with_name("java_topics.json")
"""What a worker of Apache Kafka 4.3 has written; `tests/oracle/test_java_connect_group.py` writes it."""

FILE = "/nothing/here"
PARTITIONS = {"config": 1, "offset": 2, "status": 2}
MASKED = ("worker_id", "trace", "version", "generation", "creation-timestamp", "discoverTimestamp")
"""Fields that differ by nature: addresses, stack traces, versions, how often a group has rebalanced, times."""

Found = dict[str, dict[str, list[Any]]]


def play(worker: Caller, states: Callable[[str], tuple[str, list[str]]]) -> None:
    """Send the requests, and wait after each until the worker has acted on it."""
    source = {"connector.class": SOURCE, "file": FILE, "topic": "t-ü", "tasks.max": "1"}
    sink = {"connector.class": SINK, "file": "/dev/null", "topics": "played", "tasks.max": "2"}

    def becomes(name: str, state: str, tasks: int) -> None:
        until(lambda: states(name) == (state, [state] * tasks), lambda: f"{name} {states(name)}")
        time.sleep(0.5)

    assert worker.create("one", source).status == 201
    becomes("one", "RUNNING", 1)
    body = {"name": "two", "config": sink, "initial_state": "PAUSED"}
    assert worker.ask("POST", "/connectors", body).status == 201
    until(lambda: states("two")[0] == "PAUSED")
    assert worker.ask("PUT", "/connectors/two/resume").status == 202
    becomes("two", "RUNNING", 2)
    changed = {**source, "batch.size": "5"}
    assert worker.ask("PUT", "/connectors/one/config", changed).status == 200
    time.sleep(3)
    becomes("one", "RUNNING", 1)
    assert worker.ask("PUT", "/connectors/one/pause").status == 202
    becomes("one", "PAUSED", 1)
    assert worker.ask("PUT", "/connectors/one/resume").status == 202
    becomes("one", "RUNNING", 1)
    assert worker.ask("POST", "/connectors/one/restart").status == 204
    time.sleep(2)
    becomes("one", "RUNNING", 1)
    assert worker.ask("POST", "/connectors/one/restart?includeTasks=true").status == 202
    time.sleep(2)
    becomes("one", "RUNNING", 1)
    assert worker.ask("POST", "/connectors/one/tasks/0/restart").status == 204
    time.sleep(2)
    becomes("one", "RUNNING", 1)
    assert worker.ask("PUT", "/connectors/one/stop").status == 204
    until(lambda: states("one") == ("STOPPED", []), lambda: str(states("one")))
    for offset in ({"position": 2}, {"position": 5}):
        entry = {"partition": {"filename": FILE}, "offset": offset}
        got = worker.ask("PATCH", "/connectors/one/offsets", {"offsets": [entry]})
        assert got.status == 200, got
    assert worker.ask("DELETE", "/connectors/one/offsets").status == 200
    for name in ("one", "two"):
        assert worker.ask("DELETE", f"/connectors/{name}").status == 204
        until(lambda name=name: states(name) == ("NONE", []), "the end of the states")


def found_in(bootstrap: str, group: str) -> Found:
    """Return the values by topic and key, in their order; masked. Maps have no order in Java."""
    found: Found = {}
    with Cluster(bootstrap) as cluster:
        for kind, count in PARTITIONS.items():
            starts = {TopicPartition(f"{group}-{kind}", each): 0 for each in range(count)}
            values: dict[str, list[Any]] = {}
            for batch in read_to_ends(cluster, starts):
                for record in records_of(batch):
                    key = (record.key or b"").decode()
                    assert not record.headers
                    values.setdefault(key, []).append(_masked(record.value))
            found[kind] = {key: _once(values[key]) for key in sorted(values)}
    return found


def _once(values: list[Any]) -> list[Any]:
    """Return values without repeated ones: how often a state is deleted depends on the rebalances."""
    return [
        each for each, before in zip(values, [object(), *values], strict=False) if each != before
    ]


def _masked(value: bytes | None) -> Any:
    if value is None:
        return None
    parsed = json.loads(value)
    assert json_bytes(parsed) == value, "the form is Java's: no spaces, no escapes"
    if "key" in parsed:
        parsed["key"] = len(parsed["key"])
    return {name: _without_times(parsed[name]) for name in parsed if name not in MASKED}


def _without_times(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if name not in MASKED}
