"""Spark's speculation on a standalone cluster: two attempts of a task at the same time.

Spark starts a second attempt only on another host, so the two workers have different addresses of
the loopback network.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from confluent_kafka import Producer
from tests.spark.faults.histories import committed
from tests.spark.faults.speculation import (
    CONFLICT,
    FIRST,
    REFUSED,
    SECOND,
    WRITTEN,
    Copy,
)
from tests.spark.faults.standalone import StandaloneCluster

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("transactions"),
]

PARTITIONS = 3
RECORDS = 300
HOSTS = ("127.0.0.1", "127.0.0.2")
JOBS = {
    # streaming, guarantee, by_tasks, checks_session, winner
    "driver-first": (True, "exactly-once", False, True, FIRST),
    "driver-second": (True, "exactly-once", False, True, SECOND),
    "batch-second": (False, "exactly-once", False, True, SECOND),
    "tasks-refused": (True, "exactly-once", True, True, FIRST),
    "tasks-first": (True, "exactly-once", True, False, FIRST),
    "tasks-second": (True, "exactly-once", True, False, SECOND),
    "at-least-once": (True, "at-least-once", False, True, SECOND),
}
"""With `checks_session=False` a session with speculation is used against the documentation."""


def test_no_record_is_lost_or_repeated(servers, cluster: Cluster, make_topic, tmp_path) -> None:
    source = make_topic(partitions=PARTITIONS)
    values = [b"%d" % number + b"." * 100 for number in range(RECORDS)]
    producer = Producer({"bootstrap.servers": servers})
    for number, value in enumerate(values):
        producer.produce(source, value, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    targets = {name: f"{source}-{name}" for name in JOBS}
    for made in create_topics(
        cluster, [NewTopic(each, PARTITIONS, 1) for each in targets.values()]
    ).values():
        assert not isinstance(made, Exception), made
    jobs = [Copy(servers, source, targets[name], *of, name) for name, of in JOBS.items()]
    with StandaloneCluster(tmp_path, HOSTS) as running:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.faults.speculation", running.master, str(tmp_path)],
            input="".join(each.line() for each in jobs),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split() for line in done.stdout.splitlines()]
    outcomes = {name: outcome for name, outcome, _ in said}
    assert outcomes.keys() == JOBS.keys()
    assert outcomes.pop("tasks-refused") == REFUSED
    assert {name for name, _, second_started in said if second_started == "1"} == outcomes.keys()
    found = {name: sorted(committed(servers, targets[name], PARTITIONS)) for name in JOBS}
    assert found.pop("tasks-refused") == []
    repeated = found.pop("at-least-once")
    assert set(repeated) == set(values)
    assert len(repeated) > len(values), "both attempts have written"
    for name, records in found.items():
        assert outcomes[name] in ({WRITTEN, CONFLICT} if "tasks" in name else {WRITTEN}), name
        assert records == (sorted(values) if outcomes[name] == WRITTEN else []), name
