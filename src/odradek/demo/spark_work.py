"""Runs Spark's part of the demo in a separate thread.

So Spark starts while events are produced, and Ctrl-C interrupts the main thread while it waits, not
a call to the JVM. A session is active only in the thread that created it. Therefore all calls are
made in that thread, except the calls that end the session.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import odradek.spark
from odradek.demo import pipeline
from odradek.demo.data import Tables
from odradek.demo.pipeline import Places
from odradek.demo.reconciliation import Report, longest_waits, reconcile
from odradek.demo.run_state import RunState
from odradek.demo.screen import Screen, Step
from odradek.pipelines.settings import CONF
from odradek.spark import java
from odradek.spark.offsets import from_json


class StoppedError(RuntimeError):
    """The user has stopped the demo."""


class SparkWork:
    """A context manager. Spark starts on entry, and has ended after the exit."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._executor = ThreadPoolExecutor(1, "spark")
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        self._starting = self._executor.submit(odradek.spark.session, "odradek-demo", conf=CONF)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the session in any state. After an error, hide the messages of its ending threads."""
        self._stopping.set()
        if self._starting.exception() is None:
            spark = self._starting.result()
            if error is not None:
                spark.sparkContext.setLogLevel("OFF")
            for query in spark.streams.active:
                query.stop()
            spark.stop()
        self._executor.shutdown()

    def wait_until_started(self) -> None:
        """Wait until the session has started.

        Raises:
            NoJavaError: there is no Java runtime.
        """
        with self._screen.step("Starting Spark") as step:
            version = self._starting.result().version
            step.say(f"Spark {version} on Java {java.find().version}, started in the background")

    def process(self, places: Places, tables: Tables, state: RunState, picture: Path) -> Report:
        """Run the queries until they end, reconcile all records, and draw the picture."""
        spark = self._starting.result()
        work = self._executor.submit(self._process, spark, places, tables, state, picture)
        return work.result()

    # -- in the thread ----------------------------------------------------------------------

    def _process(
        self, spark: SparkSession, places: Places, tables: Tables, state: RunState, picture: Path
    ) -> Report:
        flights, reports = len(tables.flights) + 1, len(tables.weather) + 1
        with self._step("Streaming: join, aggregate") as step:
            step.of(flights + reports)
            query = pipeline.start_delays(spark, places, flights, reports)
            batches = self._follow(query, places, state, step)
            step.say(f"{batches} micro-batches → topic {places.topics.delays}")
        with self._step("Streaming: to Parquet") as step:
            pipeline.start_parquet(spark, places).awaitTermination()
            step.say(f"topic {places.topics.delays} → {places.parquet}")
        with self._step("Reconciling") as step:
            report = reconcile(spark, places, tables, sum(state.dropped_late.values()))
            waits = longest_waits(spark, places, report.routes)
            step.say("every record of every topic, and pandas on the same tables")
        with self._step("Drawing") as step:
            from odradek.demo.picture import draw  # Imported here because matplotlib loads slowly.

            draw(report.results, picture)
            step.say(str(picture))
        self._screen.say()
        for what, names in waits.items():
            if names:  # Without names, there are too few flights for a significant mean.
                self._screen.say(f"  Longest mean delay by {what}: {', '.join(names)}")
        return report

    @contextmanager
    def _step(self, title: str) -> Iterator[Step]:
        """Show a step, which fails if the user stops the demo.

        Raises:
            StoppedError: the user has stopped the demo.
        """
        with self._screen.step(title) as step:
            yield step
            if self._stopping.is_set():
                raise StoppedError

    def _follow(self, query: StreamingQuery, places: Places, state: RunState, step: Step) -> int:
        """Show a query's progress until it ends, and record the number of dropped rows.

        Return the number of micro-batches.
        """
        seen: set[int] = set()
        running = True
        while running:
            running = not query.awaitTermination(1)
            for progress in query.recentProgress:
                if progress.batchId in seen or not progress.stateOperators:
                    continue
                seen.add(progress.batchId)
                late = sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
                state.dropped_late[str(progress.batchId)] = late
                ends = [json.loads(source.endOffset or "{}") for source in progress.sources]
                step.reached(sum(sum(from_json(end).values()) for end in ends))
                until = progress.eventTime.get("watermark", "")[:10]
                rate = int(progress.processedRowsPerSecond or 0)
                step.say(f"batch {progress.batchId}, {rate:,} rows/s, until {until}")
            state.save(places.output)
        if self._stopping.is_set():
            raise StoppedError
        return len(seen)
