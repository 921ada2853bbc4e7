"""Distributed workers: they share connectors, forward requests, and take over from one another."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.connect.distributed_lab import PATIENCE_SECONDS, Caller, InProcess, settings, until
from tests.connect.lab import error
from tests.connect.test_worker_process import properties
from tests.connect.topics_script import RECORDED, found_in, play
from tests.support.child import ODRADEK, Child

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError, RecordTooLargeError
from odradek.connect.clients import Clients
from odradek.connect.distributed import DistributedWorker
from odradek.connect.registry import installed_plugins
from odradek.connect.topic_log import TopicLog, TopicSpec
from odradek.core.connect.config_log import TaskId
from odradek.core.connect.errors import ConfigError
from odradek.core.connect.status_log import Status, StatusLog, status_record
from odradek.testing import Broker


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def test_workers_share_connectors_and_forward_requests(bootstrap: str, tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_text("one\n")
    reader = {"connector.class": "FileStreamSource", "file": str(source), "topic": "shared"}
    writer = {"connector.class": "FileStreamSink", "file": str(sink), "topics": "shared"}
    given = settings(bootstrap, "shared-group")
    with InProcess(given) as one, InProcess(given) as two:
        got = one.create("reader", reader)
        assert (got.status, got.location) == (201, f"{one.address}/connectors/reader")
        assert got.body == {
            "name": "reader",
            "config": {**reader, "name": "reader"},
            "tasks": [],
            "type": "source",
        }
        got = two.create("writer", writer)
        assert (got.status, got.location) == (201, f"{two.address}/connectors/writer")
        until(lambda: sink.exists() and sink.read_text() == "one\n", "the copy")
        until(lambda: _is_shared(one), "a fair share")
        both = (one, two)
        for each in both:
            until(lambda c=each: c.runs("reader") and c.runs("writer"), "that all know of it")
            assert each.create("reader", reader) == error(409, "Connector reader already exists")
            assert each.ask("GET", "/connectors/reader").body["tasks"] == [
                {"connector": "reader", "task": 0}
            ]
            for path in ("", "/tasks/0"):
                assert each.ask("POST", f"/connectors/reader{path}/restart").status == 204
            assert each.ask("POST", "/connectors/x/restart").status == 404
            changed = {**reader, "batch.size": "7"}
            assert each.ask("PUT", "/connectors/reader/config", changed).status == 200
            got = each.ask("PATCH", "/connectors/reader/config", {"batch.size": None})
            assert (got.status, "batch.size" in got.body["config"]) == (200, False)
            asked = "/connectors/writer/restart?includeTasks=true"
            assert each.ask("POST", asked).status == 202
            assert each.ask("PUT", "/connectors/writer/pause").status == 202
            until(lambda: one.states("writer") == ("PAUSED", ["PAUSED"]), "the pause")
            assert each.ask("PUT", "/connectors/writer/resume").status == 202
            until(lambda: one.runs("writer") and one.runs("reader"), "the end of the pause")
        source.write_text("one\ntwo\n")
        until(lambda: sink.read_text() == "one\ntwo\n", "the second copy")
        _change_offsets(both, source)
        for each, name in zip(both, ("reader", "writer"), strict=True):
            assert each.ask("DELETE", f"/connectors/{name}").status == 204
        for each in both:
            until(lambda c=each: c.ask("GET", "/connectors").body == [], "the deletion")
            until(lambda c=each: c.states("reader") == ("NONE", []), "the end of the states")


def _change_offsets(workers: Sequence[Caller], source: Path) -> None:
    for each in workers:
        assert each.ask("PUT", "/connectors/reader/stop").status == 204
        until(lambda c=each: c.states("reader") == ("STOPPED", []), "the stop")
        entry = {"partition": {"filename": str(source)}, "offset": {"position": 4}}
        got = each.ask("PATCH", "/connectors/reader/offsets", {"offsets": [entry]})
        assert got.status == 200, got
        for other in workers:
            found = other.ask("GET", "/connectors/reader/offsets").body
            assert found == {"offsets": [entry]}
        assert each.ask("PUT", "/connectors/reader/resume").status == 202
        until(lambda c=each: c.runs("reader"), "that it runs again")


def test_the_topics_have_what_apache_kafka_writes(bootstrap: str) -> None:
    with InProcess(settings(bootstrap, "played")) as worker:
        until(worker.is_healthy)
        play(worker, worker.states)
    found = found_in(bootstrap, "played")
    assert found == json.loads(RECORDED.read_text())


def test_requests_between_workers_are_signed(bootstrap: str) -> None:
    with InProcess(settings(bootstrap, "signed")) as one:
        until(one.is_healthy)
        path = "/connectors/reader/tasks"
        missing = error(400, "Internal request missing required signature")
        assert one.ask("POST", path, []) == missing
        assert one.ask("PUT", "/connectors/reader/fence") == missing
        headers = {
            "X_Connect_Authorization": "bm8=",
            "X_Connect_Request_Signature_Algorithm": "HmacSHA256",
        }
        until(lambda: one.ask("POST", path, [], **headers).status != 503, "the key")
        invalid = error(403, "Internal request contained invalid signature.")
        assert one.ask("POST", path, [], **headers) == invalid
        headers["X_Connect_Request_Signature_Algorithm"] = "HmacSHA512"
        got = one.ask("POST", path, [], **headers)
        assert got.status == 400
        assert "does not support the 'HmacSHA512' key signing algorithm" in got.body["message"]


@pytest.mark.parametrize(
    ("kind", "partitions", "policy", "text"),
    [
        ("status", 2, "delete", "is required to have 'cleanup.policy=compact' to guarantee"),
        ("config", 2, "compact", "required to have a single partition in order to guarantee"),
    ],
)
def test_a_worker_refuses_wrong_topics(
    bootstrap: str, kind: str, partitions: int, policy: str, text: str
) -> None:
    group = f"wrong-{kind}"
    topic = NewTopic(f"{group}-{kind}", partitions, 1, {"cleanup.policy": policy})
    with Cluster(bootstrap) as cluster:
        create_topics(cluster, [topic])
    worker = DistributedWorker(settings(bootstrap, group), installed_plugins())
    worker.start()
    try:
        assert worker.has_ended.wait(60)
    finally:
        worker.stop()
    assert isinstance(worker.failure, ConfigError)
    assert text in str(worker.failure)


def _is_shared(worker: Caller) -> bool:
    """Whether two workers have a task each."""
    return worker.owners("reader") != worker.owners("writer")


class Worker:
    """A process."""

    def __init__(self, folder: Path, bootstrap: str, group: str, **more: object) -> None:
        given = settings(bootstrap, group, task_host="process", **more)
        file = properties(folder / "worker.properties", **given)
        self.child = Child([*ODRADEK, "connect", "distributed", file], own_session=True)
        line = self.child.wait_for("REST API: http://localhost:")
        self.port = int(line.rpartition("http://localhost:")[2].split()[0])
        self.caller = Caller(f"http://127.0.0.1:{self.port}")

    def kill(self) -> None:
        os.kill(self.child.pid, signal.SIGKILL)
        self.child.wait(30)

    def stop(self) -> None:
        """Stop it properly."""
        self.caller.close()
        assert self.child.terminate() == 0, self.child.last_words
        self.child.close()

    def close(self) -> None:
        """End it at once, if it still runs."""
        self.caller.close()
        self.child.close()


@pytest.mark.slow("starts three workers and the processes of their tasks")
def test_tasks_of_a_killed_worker_move_and_nothing_is_lost(bootstrap: str, tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    lines = 0

    def write(count: int) -> None:
        nonlocal lines
        with source.open("a") as file:
            file.writelines(f"{each}\n" for each in range(lines, lines + count))
        lines += count

    def has_all() -> bool:
        found = set(sink.read_text().split()) if sink.exists() else set()
        return len(found) == lines

    write(100)
    workers = [Worker(tmp_path, bootstrap, "killed") for _ in range(2)]
    try:
        for each in workers:
            until(each.caller.is_healthy, lambda: workers[0].child.last_words)
        one = workers[0].caller
        config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "moved"}
        assert one.create("reader", config).status == 201
        config = {"connector.class": "FileStreamSink", "file": str(sink), "topics": "moved"}
        assert one.create("writer", config).status == 201
        until(has_all, "the first copy")
        for _ in range(2):
            until(lambda: _is_shared(workers[0].caller), "a fair share")
            owner = next(iter(workers[0].caller.owners("reader")))
            victim = next(each for each in workers if owner.endswith(f":{each.port}"))
            victim.kill()
            victim.close()
            workers.remove(victim)
            write(100)
            until(has_all, lambda: workers[0].child.last_words)
            workers.append(Worker(tmp_path, bootstrap, "killed"))
            until(workers[-1].caller.is_healthy)
            assert sorted(workers[-1].caller.ask("GET", "/connectors").body) == ["reader", "writer"]
        for each in workers:
            each.stop()
    finally:
        for each in workers:
            each.close()


def test_a_record_that_is_too_large_is_left_out(bootstrap: str) -> None:
    """The states of tasks have the traces of errors, which may be long."""
    seen: list[bytes | None] = []
    errors: list[ClientError | None] = []
    spec = TopicSpec("traces", "status.storage.topic", "statuses", 1, 1, {})
    clients = Clients({"bootstrap.servers": bootstrap})
    log = TopicLog(spec, clients, "traces", lambda _key, value, _offset: seen.append(value))
    try:
        log.start()
        log.send(b"task", b"x" * 2_000_000, errors.append)
        log.send(b"task", b"short", errors.append)
        log.flush(PATIENCE_SECONDS)
        log.read_to_end(PATIENCE_SECONDS)
    finally:
        log.stop()
    assert seen == [b"short"]
    assert isinstance(errors[0], RecordTooLargeError)
    assert errors[1:] == [None]


def test_states_may_change_while_they_are_listed() -> None:
    log = StatusLog()
    running = Status("RUNNING", "worker", 1)
    log.replay(*status_record(TaskId("one", 0), running))
    found = []
    for each in log.all_tasks():
        found.append(each)
        log.replay(*status_record(TaskId("one", 1), running))
        log.replay(*status_record(TaskId("two", 0), running))
    assert found == [TaskId("one", 0)]


def test_an_advertised_ipv6_address_has_brackets(bootstrap: str) -> None:
    given = settings(bootstrap, "six", rest_advertised_port=8083)
    worker = DistributedWorker({**given, "rest.advertised.host.name": "::1"}, installed_plugins())
    worker.start()
    worker.stop()
    assert worker.worker_id == "[::1]:8083"
