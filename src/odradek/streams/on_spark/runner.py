"""The driver: starts the query, and runs the tasks of each micro-batch.

A micro-batch is one Spark job with a row, and so a Spark task, for each Streams task (`mapInArrow`). Its
result says what the tasks have done.
"""

from __future__ import annotations

import json
import logging
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

import odradek.spark
from odradek.client.admin.admin import make_cluster
from odradek.core.streams.model.errors import StreamsError
from odradek.core.streams.topology.definition import Topology
from odradek.model.topic_partition import TopicPartition
from odradek.spark import garbage
from odradek.spark.reporting import explained
from odradek.streams.on_spark import shipping, source
from odradek.streams.on_spark.members import check_members
from odradek.streams.on_spark.settings import SparkSettings
from odradek.streams.on_spark.source import FORMAT, TaskTopics, Work
from odradek.streams.process.layout import Layout
from odradek.streams.process.records import delete_read
from odradek.streams.process.settings import ADMIN, WorkerSettings
from odradek.streams.process.task_states import TaskId
from odradek.streams.process.topics import prepare

log = logging.getLogger(__name__)

RESULT_SCHEMA = (
    "subtopology int, partition int, worker string, records long, restored long, "
    "committed string, error string"
)
LOOK_SECONDS = 0.2
"""How often `run` looks whether it must stop."""


class SparkRunner:
    """Runs an application as a streaming query."""

    def __init__(
        self, topology: Topology, settings: WorkerSettings, spark: SparkSettings | None = None
    ) -> None:
        """Create the internal topics.

        Raises:
            TopologyError: source topics are missing or do not fit.
            ClientError: the cluster refuses, or cannot be reached.
        """
        self._topology = topology
        self._settings = settings
        self._spark = spark or SparkSettings()
        self._stops = threading.Event()
        self._between = threading.Lock()
        """Whoever has it is in a micro-batch."""
        self._owners: dict[TaskId, str] = {}
        """The worker that ran each task last, and can go on with it."""
        self._read_to: dict[TopicPartition, int] = {}
        """Up to where repartition topics were read, if it was not deleted yet."""
        self._purged = time.monotonic()
        self._error: Exception | None = None
        self._layout, _ = prepare(topology, settings)
        self._shipped = shipping.pack(topology, settings)

    def stop(self) -> None:
        """End `run` soon. May be called from a signal handler or another thread."""
        self._stops.set()

    def run(self) -> None:
        """Process records until `stop` is called. The micro-batch that runs then is completed.

        A session of Spark that runs already is used, and goes on.

        Raises:
            StreamsError: a record cannot be processed, the group has members, or the query has
                failed for another reason.
            ClientError: the cluster refuses, or cannot be reached when the query begins.
        """
        application_id = self._topology.application_id
        with make_cluster(self._settings.clients[ADMIN], {}) as cluster:
            check_members(cluster, application_id)
        is_own = SparkContext._active_spark_context is None
        spark = odradek.spark.session(
            application_id, master=self._spark.master, conf=self._spark.conf
        )
        try:
            with tempfile.TemporaryDirectory(prefix="odradek-streams-") as directory:
                self._run_query(spark, self._spark.checkpoint or directory)
        finally:
            if is_own:
                spark.stop()

    def _run_query(self, spark: SparkSession, checkpoint: str) -> None:
        work = Work(self._shipped.run_id, tasks_of(self._layout), self._settings.clients[ADMIN])
        spark.dataSource.register(source.source_of(work))
        query = (
            spark.readStream.format(FORMAT)
            .load()
            .writeStream.queryName(self._topology.application_id)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{self._settings.commit_interval_ms} milliseconds")
            .foreachBatch(self._run_batch)
            .start()
        )
        try:
            while not self._stops.wait(LOOK_SECONDS) and query.isActive:
                pass
        finally:
            self._stops.set()
            with self._between:  # wait for the end of a micro-batch; later ones do nothing
                pass
            query.stop()
        if self._error is not None:
            raise self._error
        failed = query.exception()
        if failed is not None:
            reason = str(failed).splitlines()[0]
            raise StreamsError(f"the query {query.name} has failed: {reason}") from failed

    def _run_batch(self, frame: DataFrame, number: int) -> None:
        """Run the tasks of a micro-batch. Spark calls this in another thread."""
        with self._between:
            if self._stops.is_set():
                return
            began = time.monotonic()
            run = _in_worker(self._shipped, dict(self._owners))
            rows = frame.mapInArrow(run, RESULT_SCHEMA).collect()
            for row in rows:
                task_id = row.subtopology, row.partition
                if row.error is not None:
                    self._error = StreamsError(row.error)
                    self._stops.set()  # quietly: an error here would fill Spark's log
                    return
                self._owners[task_id] = row.worker
                self._note_read(row.partition, json.loads(row.committed))
            log.info(
                "micro-batch %d: %d tasks, %d records, %d restored, %.0f ms",
                number,
                len(rows),
                sum(row.records for row in rows),
                sum(row.restored for row in rows),
                (time.monotonic() - began) * 1000,
            )
            self._purge()

    def _note_read(self, partition: int, committed: Mapping[str, int]) -> None:
        for topic in self._layout.repartition_topics & committed.keys():
            self._read_to[TopicPartition(topic, partition)] = committed[topic]

    def _purge(self) -> None:
        """Delete from time to time what was read of repartition topics: nobody else needs it."""
        interval = self._settings.purge_interval_ms / 1000
        if not self._read_to or time.monotonic() - self._purged < interval:
            return
        self._purged = time.monotonic()
        before, self._read_to = self._read_to, {}
        delete_read(self._settings, before)


def tasks_of(layout: Layout) -> tuple[TaskTopics, ...]:
    """Return all tasks."""
    return tuple(
        TaskTopics(each.number, partition, tuple(each.source_topics))
        for each in layout.subtopologies
        for partition in range(layout.tasks[each.number])
    )


def _in_worker(shipped: shipping.Shipped, owners: Mapping[TaskId, str]) -> Any:
    """Return the function that runs the tasks of its rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from odradek.streams.on_spark import application

        garbage.leave_out_modules()
        for batch in batches:
            for row in batch.to_pylist():
                yield _run_task(application, row)

    def _run_task(application: Any, row: Mapping[str, Any]) -> pa.RecordBatch:
        task_id = row["subtopology"], row["partition"]
        error, done = None, application.Result(0, 0, {})
        with explained():
            try:
                done = application.run(shipped, task_id, json.loads(row["ends"]), owners)
            except StreamsError as problem:  # Spark would only try again
                error = str(problem)
        columns = {
            "subtopology": pa.array([task_id[0]], pa.int32()),
            "partition": pa.array([task_id[1]], pa.int32()),
            "worker": pa.array([done.worker], pa.string()),
            "records": pa.array([done.records], pa.int64()),
            "restored": pa.array([done.restored], pa.int64()),
            "committed": pa.array([json.dumps(done.committed)], pa.string()),
            "error": pa.array([error], pa.string()),
        }
        return pa.record_batch(columns)

    return run
