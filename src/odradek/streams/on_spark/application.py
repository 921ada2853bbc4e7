"""An application in a worker of Spark: its tasks, and what they share.

After its first micro-batch a task stays in its worker, with its stores. Spark gives it to any worker in
the next one. Then that worker asks the owner, if it is on the same machine, to run the task (`serving`).
If the owner is gone, the task is made again, and its stores are restored from the changelogs.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any

from odradek.client.admin.admin import make_cluster
from odradek.client.cluster import Cluster
from odradek.client.consuming.consumer import Consumer
from odradek.core.streams.stores.base import Store
from odradek.core.streams.task import GlobalTask
from odradek.core.streams.topology.definition import Topology
from odradek.model.topic_partition import TopicPartition
from odradek.streams.on_spark.serving import Server, ask
from odradek.streams.on_spark.shipping import Shipped
from odradek.streams.on_spark.tasks import Result, RunningTask
from odradek.streams.process.records import consumed, now_ms
from odradek.streams.process.restoring import POLL_SECONDS, read_whole
from odradek.streams.process.settings import ADMIN, GLOBAL_CONSUMER, WorkerSettings
from odradek.streams.process.task_states import TaskId


class Application:
    """An application in this process, with its tasks and its global tables."""

    def __init__(self, topology: Topology, settings: WorkerSettings) -> None:
        self.topology = topology
        self.settings = settings
        self.cluster: Cluster = make_cluster(settings.clients[ADMIN], {})
        self._tasks: dict[TaskId, RunningTask] = {}
        self._counts: dict[str, int] = {}
        self._globals = GlobalTask(topology)
        self._global_consumer: Consumer | None = None

    @property
    def global_stores(self) -> dict[str, Store]:
        """The global tables, which all tasks share."""
        return self._globals.stores

    def task(self, task_id: TaskId, gone: Collection[TaskId]) -> tuple[RunningTask, int]:
        """Return a task that can go on, and how many records were restored for it.

        `gone` are the tasks that other processes have run last. They are closed.
        """
        for other in self._tasks.keys() & gone:
            self.forget(other)
        self._update_globals()
        found = self._tasks.get(task_id)
        if found is not None:
            return found, 0
        made = RunningTask(self, task_id)
        try:
            restored = made.start()
        except BaseException:
            made.close()
            raise
        self._tasks[task_id] = made
        return made, restored

    def forget(self, task_id: TaskId) -> None:
        """Close a task. It will be made again."""
        task = self._tasks.pop(task_id, None)
        if task is not None:
            task.close()

    def close(self) -> None:
        """Close all."""
        for task_id in list(self._tasks):
            self.forget(task_id)
        if self._global_consumer is not None:
            self._global_consumer.close()
        self.cluster.close()

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of an output topic."""
        found = self._counts.get(topic)
        if found is None:
            found = self._counts[topic] = len(self.cluster.topic(topic).partitions)
        return found

    def _update_globals(self) -> None:
        """Read what is new in the topics of global tables, the first time all."""
        topics = self._globals.topics()
        if not topics:
            return
        places = [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in range(self.partition_count(topic))
        ]
        reading = self.settings.clients[GLOBAL_CONSUMER]
        consumer = self._global_consumer
        if consumer is None:
            ends: dict[TopicPartition, int | None] = dict.fromkeys(places)
            positions = read_whole(reading, ends, self._update_global, lambda: False)
            consumer = self._global_consumer = Consumer(reading)
            consumer.assign([(each.topic, each.partition, at) for each, at in positions.items()])
            return
        limits = consumer.end_offsets(*places)
        while any(consumer.position(each) < limits[each] for each in places):
            for record in consumer.poll(POLL_SECONDS) or ():
                self._update_global(record)

    def _update_global(self, record: Any) -> None:
        self._globals.update(record.topic, record.partition, consumed(record), now_ms())


class Here:
    """The application of the last run in this process, and its server."""

    def __init__(self, shipped: Shipped) -> None:
        self.run_id = shipped.run_id
        self._lock = threading.Lock()
        """One task runs at a time."""
        self._application = Application(*shipped.unpack())
        self._server = Server(shipped.secret, self.run_task)

    @property
    def name(self) -> str:
        """The name of this worker, which is also its address."""
        return self._server.name

    def run_task(
        self, task_id: TaskId, ends: Mapping[str, int], owners: Mapping[TaskId, str]
    ) -> Result:
        """Let a task process a micro-batch in this process.

        Raises:
            StreamsError: a record cannot be processed, or the group has members.
            ClientError: the cluster refuses, or cannot be reached.
        """
        gone = {each for each, owner in owners.items() if owner != self.name}
        with self._lock:
            task, restored = self._application.task(task_id, gone)
            try:
                return task.run(ends)._replace(worker=self.name, restored=restored)
            except BaseException:
                self._application.forget(task_id)
                raise

    def close(self) -> None:
        """Close all."""
        self._server.close()
        with self._lock:
            self._application.close()


_here: Here | None = None


def run(
    shipped: Shipped, task_id: TaskId, ends: Mapping[str, int], owners: Mapping[TaskId, str]
) -> Result:
    """Let a task process a micro-batch, if possible in the process that ran it last.

    Raises:
        StreamsError: a record cannot be processed, or the group has members.
        ClientError: the cluster refuses, or cannot be reached.
        ServingError: the other process has had another error.
    """
    global _here  # noqa: PLW0603  (a process runs one application at a time)
    if _here is None or _here.run_id != shipped.run_id:
        if _here is not None:
            _here.close()
        _here = Here(shipped)
    owner = owners.get(task_id)
    if owner is not None and owner != _here.name:
        result = ask(owner, shipped.secret, task_id, ends, owners)
        if result is not None:
            return result
    return _here.run_task(task_id, ends, owners)
