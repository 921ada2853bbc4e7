"""Exactly-once sources (KIP-618): whatever is killed, each line of a file is in the topic once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.connect.distributed_lab import InProcess, settings, until
from tests.connect.test_distributed import Worker

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends, records_of
from odradek.client.core.fetch_settings import READ_COMMITTED
from odradek.connect import SourceConnector, SourceRecord, SourceTask
from odradek.connect.exact_source_runner import ExactSourceRunner, Guard
from odradek.core.connect.config_log import TargetState, TaskId
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.source_task import Boundary
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def committed(bootstrap: str, topic: str) -> list[str]:
    """Return the values of the committed records."""
    with Cluster(bootstrap) as cluster:
        batches = read_to_ends(cluster, {TopicPartition(topic, 0): 0}, READ_COMMITTED)
        return [(each.value or b"").decode() for batch in batches for each in records_of(batch)]


# -- boundaries -------------------------------------------------------------------------------


class MarkingTask(SourceTask):
    """Each batch has the numbers from 0 to 9 and a letter. The task commits after 3, and aborts after 6."""

    def start(self, config: Mapping[str, str]) -> None:
        self._topic = config["topic"]
        offset = self.context.offset({"marks": "x"})
        self._round = 0 if offset is None else offset["round"]

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._round == 2:
            time.sleep(0.1)
            return None
        letter = "ab"[self._round]
        self._round += 1
        records = [
            SourceRecord(
                topic=self._topic,
                value=f"{letter}{number}",
                source_partition={"marks": "x"},
                source_offset={"round": self._round, "number": number},
            )
            for number in range(10)
        ]
        ends = self.context.transaction
        assert ends is not None
        ends.commit_transaction(records[3])
        ends.abort_transaction(records[6])
        ends.commit_transaction()
        return records


class MarkingConnector(SourceConnector):
    task_class = MarkingTask

    def start(self, config: Mapping[str, str]) -> None:
        self._config = config

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self._config]

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        return True

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        return True


@pytest.mark.parametrize("host", ["thread", "process"])
def test_a_task_ends_its_transactions(bootstrap: str, host: str) -> None:
    group = f"marks-{host}"
    given = settings(bootstrap, group, exactly_once_source_support="enabled", task_host=host)
    config: dict[str, Any] = {
        "connector.class": "Marking",
        "topic": group,
        "transaction.boundary": "connector",
        "exactly.once.support": "required",
    }
    with Cluster(bootstrap) as cluster:
        create_topics(cluster, [NewTopic(group, 1, 1)])
    with InProcess(given, MarkingConnector) as worker:
        until(worker.is_healthy)
        got = worker.create("file", {**config, "connector.class": "Datagen"})
        assert got.status == 400
        assert "does not support connector-defined transaction boundaries" in got.body["message"]
        assert worker.create("marks", config).status == 201
        until(lambda: worker.runs("marks"), lambda: worker.states("marks"))
        wanted = [f"{letter}{number}" for letter in "ab" for number in (0, 1, 2, 3, 7, 8, 9)]
        until(lambda: committed(bootstrap, group) == wanted, "the records")
        found = worker.ask("GET", "/connectors/marks/offsets").body["offsets"]
        assert found == [{"partition": {"marks": "x"}, "offset": {"round": 2, "number": 9}}]


def test_a_task_that_may_not_start_closes_its_connections() -> None:
    def refuse(_: object) -> None:
        raise ConnectError("the leader refuses")

    listener, pipeline, topics = Mock(), Mock(), Mock()
    runner = ExactSourceRunner(
        TaskId("one", 0),
        TargetState.STARTED,
        listener,
        make=MarkingTask,
        config={},
        pipeline=pipeline,
        make_errors=Mock(),
        make_producer=Mock(),
        open_offsets=nullcontext,
        topics=topics,
        flush_interval_ms=1,
        flush_timeout_ms=1,
        guard=Guard(refuse, Mock()),
        boundary=Boundary.POLL,
        interval_ms=1,
    )
    runner.run()
    (told,) = listener.task_state.call_args_list
    assert told.args[:2] == (TaskId("one", 0), "FAILED")
    pipeline.close.assert_called_once_with()
    topics.close.assert_called_once_with()


# -- kills ------------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found: list[int] = []
    for each in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (each / "children").read_text().split()]
    return found


def play(bootstrap: str, folder: Path, group: str, rounds: int, seed: int) -> None:
    """Copy a file, while workers and tasks are killed. Then each line is in the topic once."""
    r = random.Random(seed)
    source = folder / "in"
    lines = rounds * 300
    source.write_text("".join(f"{each}\n" for each in range(lines)))
    more = {
        "exactly_once_source_support": "enabled",
        "restart_policy_budget": 1_000,
        "restart_policy_pause_ms": 50,
    }
    with Cluster(bootstrap) as cluster:
        create_topics(cluster, [NewTopic(group, 1, 1)])
    workers = [Worker(folder, bootstrap, group, **more) for _ in range(2)]
    config = {
        "connector.class": "FileStreamSource",
        "file": str(source),
        "topic": group,
        "batch.size": "5",
        "exactly.once.support": "required",
    }
    try:
        for each in workers:
            until(each.caller.is_healthy, lambda: workers[0].child.last_words)
        assert workers[0].caller.create("reader", config).status == 201
        for turn in range(rounds):
            before = len(committed(bootstrap, group)) if turn else 0
            until(
                lambda b=before: len(committed(bootstrap, group)) > b or b == lines,
                lambda: [each.child.last_words for each in workers],
            )
            time.sleep(r.random() / 2)
            victim = r.choice(workers)
            if r.random() < 0.5:
                for child in children(victim.child.pid):
                    os.kill(child, signal.SIGKILL)
                continue
            victim.kill()
            victim.close()
            workers.remove(victim)
            workers.append(Worker(folder, bootstrap, group, **more))
        until(
            lambda: len(committed(bootstrap, group)) >= lines,
            lambda: [each.child.last_words for each in workers],
        )
    finally:
        for each in workers:
            each.close()
    counts = Counter(committed(bootstrap, group))
    assert counts == Counter(str(each) for each in range(lines))


@pytest.mark.slow("kills workers and the processes of tasks")
def test_kills_neither_lose_nor_repeat(bootstrap: str, tmp_path: Path) -> None:
    play(bootstrap, tmp_path, "kills", 3, 1)


@pytest.mark.long
def test_many_kills_neither_lose_nor_repeat(bootstrap: str, tmp_path: Path) -> None:
    play(bootstrap, tmp_path, "many-kills", 30, 2)
