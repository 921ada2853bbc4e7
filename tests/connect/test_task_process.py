"""Tasks in processes of their own: the same results, and what becomes of one that dies or hangs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.connect.lab import Lab
from tests.connect.process_connectors import KeeperSink, WriterSource

from odradek.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


def name(made: type) -> str:
    return f"{made.__module__}.{made.__name__}"


def test_records_and_errors_pass_between_the_processes(broker, tmp_path: Path):
    file = tmp_path / "kept"
    sink = {
        "connector.class": name(KeeperSink),
        "topics": "process-run",
        "file": str(file),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "process-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    classes = (WriterSource, KeeperSink)
    with Lab(broker.bootstrap_servers, tmp_path, *classes, task_host="process") as lab:
        assert (
            lab.create("writer", {"connector.class": name(WriterSource), "mode": "run"}).status
            == 201
        )
        assert lab.create("keeper", sink).status == 201
        lab.until(lambda: file.exists() and len(file.read_text().splitlines()) > 20)
        lines = [each.split() for each in file.read_text().splitlines()]
        assert [int(each[0]) for each in lines] == list(range(len(lines)))
        assert {int(each[2]) for each in lines}.isdisjoint({os.getpid()})
        os.kill(int(lines[0][2]), signal.SIGINT)  # as Ctrl-C on a terminal does
        lab.until(lambda: len(file.read_text().splitlines()) > len(lines) + 20)
        lab.until(lambda: int(file.read_text().splitlines()[-1].split()[3]) > 0)
        lab.until(lambda: lab.ask("GET", "/connectors/writer/offsets").body["offsets"] != [])
        assert lab.ask("PUT", "/connectors/writer/stop").status == 204
        assert lab.ask("PUT", "/connectors/writer/resume").status == 202
        lab.until(lambda: lab.states("writer") == ("RUNNING", ["RUNNING"]))


def test_a_process_that_is_killed_is_shown_with_its_last_words(broker, tmp_path: Path):
    with Lab(broker.bootstrap_servers, tmp_path, WriterSource, task_host="process") as lab:
        lab.create("dying", {"connector.class": name(WriterSource), "mode": "die"})
        lab.until(lambda: lab.states("dying") == ("RUNNING", ["FAILED"]))
        trace = lab.ask("GET", "/connectors/dying/tasks/0/status").body["trace"]
        assert "has ended (signal 9)" in trace
        assert "the last words" in trace


def test_a_task_that_hangs_is_killed_when_it_must_stop(broker, tmp_path: Path):
    settings = {"task_host": "process", "task_shutdown_graceful_timeout_ms": "300"}
    with Lab(broker.bootstrap_servers, tmp_path, WriterSource, **settings) as lab:
        lab.create("hanging", {"connector.class": name(WriterSource), "mode": "hang"})
        lab.until(lambda: lab.states("hanging") == ("RUNNING", ["RUNNING"]))
        assert lab.ask("DELETE", "/connectors/hanging").status == 204
