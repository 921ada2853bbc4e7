"""Exports the progress of a session's streaming queries to Prometheus.

Spark reports the progress of each micro-batch to a listener in the driver. The last report of each
running query is served over HTTP. A query that has ended has no metrics. `prometheus_client` is
imported when it is needed, because workers import this package, too.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from odradek.spark import query_progress
from odradek.spark.query_progress import Progress

PREFIX = "odradek_spark_query_"
COUNTERS = {
    "batches": "Micro-batches with rows since the query was started.",
    "rows": "Rows that the query has read since it was started.",
}
GAUGES = {
    "batch_id": "The number of the last micro-batch.",
    "rows_per_second": "Rows per second of the last micro-batch.",
    "batch_duration_seconds": "Duration of the last micro-batch.",
    "lag_records": "Records in the topics that the last micro-batch left unread.",
    "state_rows": "Rows in the state of the query.",
    "state_memory_bytes": "Memory that the state of the query uses.",
}


@dataclass(slots=True)
class _Query:
    """The counters of a query, and its last progress."""

    run_id: str
    last: Progress
    batches: int = 0
    rows: int = 0

    def add(self, progress: Progress) -> None:
        """Count a micro-batch. Spark also reports that there were no rows."""
        self.last = progress
        rows = query_progress.rows(progress)
        self.rows += rows
        self.batches += rows > 0

    def values(self) -> Iterator[tuple[str, float]]:
        """Yield the names and values of the metrics. A query may have no lag."""
        yield "batches", self.batches
        yield "rows", self.rows
        yield "batch_id", self.last["batchId"]
        yield "rows_per_second", query_progress.rate(self.last)
        yield "batch_duration_seconds", query_progress.duration_ms(self.last) / 1000
        lag = query_progress.lag(self.last)
        if lag is not None:
            yield "lag_records", lag
        state_rows, state_bytes = query_progress.state(self.last)
        yield "state_rows", state_rows
        yield "state_memory_bytes", state_bytes


class QueryMetrics(StreamingQueryListener):
    """Keeps the metrics of running queries by id. `collect` is called by `prometheus_client`.

    Spark calls the `on` methods in a thread of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, _Query] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (Spark's name)
        """Do nothing: a query has metrics from its first micro-batch on."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Keep the progress of a micro-batch."""
        self.add(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: there was no micro-batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget the query."""
        with self._lock:
            self._queries.pop(str(event.id), None)

    def add(self, progress: Progress) -> None:
        """Keep the progress of a micro-batch."""
        with self._lock:
            query = self._queries.get(progress["id"])
            if query is None or query.run_id != progress["runId"]:
                query = _Query(progress["runId"], progress)
                self._queries[progress["id"]] = query
            query.add(progress)

    def collect(self) -> Iterator[Any]:
        """Yield the metrics of all running queries, with the labels `query` and `id`."""
        from prometheus_client import Metric

        kinds = {**dict.fromkeys(COUNTERS, "counter"), **dict.fromkeys(GAUGES, "gauge")}
        texts = {**COUNTERS, **GAUGES}
        metrics = {name: Metric(f"{PREFIX}{name}", texts[name], kinds[name]) for name in texts}
        with self._lock:
            for query_id, query in self._queries.items():
                labels = {"query": query_progress.name(query.last), "id": query_id}
                for name, value in query.values():
                    ending = "_total" if name in COUNTERS else ""
                    metrics[name].add_sample(f"{PREFIX}{name}{ending}", labels, value)
        yield from metrics.values()


class MetricsExport:
    """The metrics of a session, served until `close`."""

    def __init__(self, spark: SparkSession, host: str, port: int) -> None:
        """Raise OSError if the port cannot be bound."""
        from prometheus_client import CollectorRegistry, start_http_server

        self._spark = spark
        self._metrics = QueryMetrics()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self._metrics)
        self._server: Any
        self._server, self._thread = start_http_server(port, host, registry)
        self.port: int = self._server.server_port
        spark.streams.addListener(self._metrics)

    def close(self) -> None:
        """Stop to serve the metrics."""
        self._spark.streams.removeListener(self._metrics)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def export_metrics(spark: SparkSession, port: int, host: str = "127.0.0.1") -> MetricsExport:
    """Serve the progress of all streaming queries of a session to Prometheus.

    `port` 0 chooses a free port, which the result has.

    Raises:
        OSError: the port cannot be bound.
    """
    return MetricsExport(spark, host, port)
