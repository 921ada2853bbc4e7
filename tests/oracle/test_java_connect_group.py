"""Workers of Apache Kafka and of Odradek: the same topics, and one group of both.

With RECORD=1, what Java's worker writes to its topics is recorded again for `tests/connect`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.connect.distributed_lab import Caller, until
from tests.connect.lab import Got
from tests.connect.mirror_lab import place
from tests.connect.test_distributed import Worker
from tests.connect.topics_script import RECORDED, found_in, play
from tests.oracle.connect_workers import JavaWorker

from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends
from odradek.client.core.fetch_settings import READ_COMMITTED
from odradek.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.long]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def test_the_recorded_topics_are_java_s(bootstrap: str, tmp_path: Path) -> None:
    worker = JavaWorker(tmp_path, bootstrap, "played")
    try:
        play(worker.caller, worker.caller.states)
        time.sleep(3)
    finally:
        worker.close()
    found = found_in(bootstrap, "played")
    if os.environ.get("RECORD"):
        RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(RECORDED.read_text())


class Copy:
    """A file that grows, and what arrives in another one."""

    def __init__(self, folder: Path, topic: str) -> None:
        self.source, self.sink = folder / "in", folder / "out"
        self.source.touch()
        self._topic = topic
        self.lines = 0

    def create(self, worker: Caller) -> None:
        reader = {"connector.class": SOURCE, "file": str(self.source), "topic": self._topic}
        writer = {"connector.class": SINK, "file": str(self.sink), "topics": self._topic}
        assert worker.create("reader", reader).status == 201
        assert worker.create("writer", writer).status == 201

    def write(self, count: int = 50) -> None:
        with self.source.open("a") as file:
            file.writelines(f"{each}\n" for each in range(self.lines, self.lines + count))
        self.lines += count

    @property
    def is_complete(self) -> bool:
        found = self.sink.read_text().split() if self.sink.exists() else []
        return set(found) == {str(each) for each in range(self.lines)}

    def repeated(self, bootstrap: str) -> tuple[int, int]:
        """Return how many records of the topic, and how many lines of the sink, came more than once.

        All lines are there, and in order where they came first.
        """
        wanted = [str(each) for each in range(self.lines)]
        with Cluster(bootstrap) as cluster:
            batches = read_to_ends(cluster, {place(self._topic): 0}, READ_COMMITTED)
            found = [str(each.value, "utf-8") for batch in batches for each in batch]
        assert list(dict.fromkeys(found)) == wanted
        lines = self.sink.read_text().split()
        assert list(dict.fromkeys(lines)) == wanted
        return len(found) - len(wanted), len(lines) - len(wanted)


def _config(caller: Caller, name: str) -> dict[str, str]:
    """Return the configuration of a connector. While the group rebalances, the answer may be 409."""
    found: list[Got] = []

    def is_there() -> bool:
        found.append(caller.ask("GET", f"/connectors/{name}/config"))
        return found[-1].status == 200

    until(is_there, f"the configuration of {name}")
    return found[-1].body


def _check_requests(workers: list[Worker | JavaWorker]) -> None:
    """Each worker answers all requests, whoever leads, and whoever has the connector."""
    for each in workers:
        caller = each.caller
        for name in ("reader", "writer"):
            until(lambda c=caller, n=name: c.runs(n), lambda c=caller: c.states("reader"))
            for path in ("", "/tasks/0"):
                asked = f"/connectors/{name}{path}/restart"
                until(lambda c=caller, a=asked: c.ask("POST", a).status == 204, asked)
            asked = f"/connectors/{name}/restart?includeTasks=true"
            until(lambda c=caller, a=asked: c.ask("POST", a).status == 202, asked)
            asked = f"/connectors/{name}/config"
            config = _config(caller, name)
            config["batch.size"] = str(100 + each.port % 100)
            until(lambda c=caller, a=asked, g=config: c.ask("PUT", a, g).status == 200, asked)
            until(lambda c=caller, a=asked, g=config: c.ask("GET", a).body == g, asked)
    # The worker that has the connector sends its tasks to the leader, signed.
    for each in workers:
        for name in ("reader", "writer"):
            wanted = _config(each.caller, name)["batch.size"]

            def has_new_tasks(c: Caller = each.caller, n: str = name, w: str = wanted) -> bool:
                got = c.ask("GET", f"/connectors/{n}/tasks")  # 409 while the group rebalances
                if got.status == 409:
                    return False
                return [task["config"]["batch.size"] for task in got.body] == [w]

            until(has_new_tasks, f"the tasks of {name}")
            until(lambda c=each.caller, n=name: c.runs(n), name)


def _roll(workers: list[Worker | JavaWorker], copy: Copy, new: Worker | JavaWorker) -> None:
    """Let a worker take the place of the first one, while lines are copied."""
    workers.append(new)
    copy.write()
    until(lambda: copy.is_complete, "the copy with one worker more")
    _check_requests(workers)
    first = workers.pop(0)
    copy.write()
    first.stop()
    copy.write()
    until(lambda: copy.is_complete, "the copy with one worker less")
    _check_requests(workers)


@pytest.mark.parametrize("support", ["disabled", "enabled"])
@pytest.mark.timeout(1_200)
def test_workers_roll_from_java_to_ours_and_back(
    bootstrap: str, tmp_path: Path, figures: list[str], support: str
) -> None:
    group = f"rolling-{support}"
    copy = Copy(tmp_path, f"rolled-{support}")
    more = {"exactly.once.source.support": support}
    workers: list[Worker | JavaWorker] = [
        JavaWorker(tmp_path, bootstrap, group, **more),
        JavaWorker(tmp_path, bootstrap, group, **more),
    ]
    try:
        copy.create(workers[0].caller)
        copy.write()
        until(lambda: copy.is_complete, "the first copy")
        for _ in range(2):
            _roll(workers, copy, Worker(tmp_path, bootstrap, group, **more))
        for _ in range(2):
            _roll(workers, copy, JavaWorker(tmp_path, bootstrap, group, **more))
    finally:
        for each in workers:
            each.close()
    of_topic, of_sink = copy.repeated(bootstrap)
    if support == "enabled":
        assert of_topic == 0, "the source runs exactly once"
    figures.append(
        f"exactly once {support}: {copy.lines} lines through 4 moves, none lost; {of_topic} twice in the "
        f"topic, {of_sink} twice in the sink"
    )
