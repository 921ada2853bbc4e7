"""The data source of the query: a row for each task, with the offsets up to which it must read.

Spark stores these offsets in its checkpoint, and shows them in its reports. The tasks read the records
themselves, so they do not go through the JVM. A row does not say where a task begins: the committed
offsets of the group do.

The offsets also have the id of the run, and a number that grows every `TICK_SECONDS`. If they change, the
micro-batch has all tasks, also without new records. So a run begins with all tasks, functions that are
due by the clock are called, and Spark does not end its workers, which it does after an idle minute.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from odradek.client.admin.admin import make_cluster
from odradek.client.cluster import Cluster
from odradek.model.topic_partition import TopicPartition
from odradek.spark import resolution
from odradek.spark.offsets import JsonOffsets, from_json, to_json
from odradek.spark.reporting import explained

FORMAT = "odradek-streams"
SCHEMA = "subtopology int, partition int, ends string"
RUN = "/run"
"""The key of the run's id in the offsets. No topic can have this name."""
PATIENCE_MS = 120_000
"""How long to look for a broker that responds."""
TICK_SECONDS = 20
TopicEnds = dict[str, int]


class TaskTopics(NamedTuple):
    """A task, and the topics that it reads."""

    subtopology: int
    partition: int
    topics: tuple[str, ...]


class Work(NamedTuple):
    """What the query works on."""

    run_id: str
    tasks: tuple[TaskTopics, ...]
    connection: Mapping[str, Any]


@dataclass(frozen=True)
class TaskSplit(InputPartition):
    """A task of a micro-batch, and the offset up to which it must read each topic."""

    subtopology: int
    partition: int
    ends: TopicEnds


class TaskReader(DataSourceStreamReader):
    """Looks for new records, and names the tasks that have some."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._cluster: Cluster | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the connections, for the copies in tasks."""
        return {**self.__dict__, "_cluster": None}

    def initialOffset(self) -> JsonOffsets:  # noqa: N802  (Spark's name)
        """Return where a new query starts: nowhere, so that its first micro-batch has all tasks."""
        return {}

    @explained()
    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        """Return the last stable offsets of all topics.

        Raises:
            ClusterError: no broker responds, or a topic does not exist.
        """
        del start, limit
        if self._cluster is None:
            self._cluster = make_cluster(self._work.connection, {})
        cluster = self._cluster
        places = [
            TopicPartition(topic, task.partition)
            for task in self._work.tasks
            for topic in task.topics
        ]
        found = resolution.patiently(
            lambda: resolution.ends(cluster, places, read_committed=True), PATIENCE_MS
        )
        run = {"id": self._work.run_id, "tick": int(time.time()) // TICK_SECONDS}
        return {**to_json(found), RUN: run}

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> list[InputPartition]:
        """Return the tasks that have to read, or all."""
        has_all = start.get(RUN) != end.get(RUN)
        before = from_json({topic: each for topic, each in start.items() if topic != RUN})
        after = from_json({topic: each for topic, each in end.items() if topic != RUN})
        found: list[InputPartition] = []
        for task in self._work.tasks:
            places = [TopicPartition(topic, task.partition) for topic in task.topics]
            if has_all or any(after.get(each, 0) > before.get(each, 0) for each in places):
                ends = {each.topic: after.get(each, 0) for each in places}
                found.append(TaskSplit(task.subtopology, task.partition, ends))
        return found

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Return the row of a task. If there are no tasks, Spark calls this with another object."""
        if isinstance(partition, TaskSplit):
            yield partition.subtopology, partition.partition, json.dumps(partition.ends)

    def commit(self, end: JsonOffsets) -> None:
        """Do nothing: the tasks have committed."""

    def stop(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def source_of(work: Work) -> type[DataSource]:
    """Return the source of a query. The class has the settings, so that no plan shows passwords."""

    class TaskSource(DataSource):
        """Names the tasks of one application."""

        @classmethod
        def name(cls) -> str:
            """The name in `format(…)`."""
            return FORMAT

        def schema(self) -> str:
            """Return the schema."""
            return SCHEMA

        def streamReader(self, schema: Any) -> TaskReader:  # noqa: N802  (Spark's name)
            """Return the reader."""
            del schema
            return TaskReader(work)

    return TaskSource
