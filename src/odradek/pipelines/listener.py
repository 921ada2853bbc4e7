"""Collects the progress of all queries of a session."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from odradek.pipelines.reports import Report, report_of
from odradek.spark.options import read_options


class ProgressListener(StreamingQueryListener):
    """Calls functions for each micro-batch, and for the end of each query.

    Spark calls the methods in its own thread. An error in it would be lost in Spark's log.
    """

    def __init__(
        self,
        on_batch: Callable[[Report], None],
        on_end: Callable[[str, str | None], None],
    ) -> None:
        """`on_end` gets the id of the query, and its error."""
        self._on_batch = on_batch
        self._on_end = on_end

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (Spark's name)
        """Do nothing: the first micro-batch is reported."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Report a micro-batch."""
        self._on_batch(report_of(json.loads(event.progress.json)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: there was no micro-batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Report the end of a query."""
        self._on_end(str(event.id), event.exception)


def checkpoint_and_groups(spark: SparkSession, query_id: str) -> tuple[str | None, list[str]]:
    """Return the checkpoint of a running query, and the groups that show its progress.

    Spark has no public method for this, so the objects of the query in the JVM are asked. The result
    is empty if the query has ended, or if another version of Spark has other objects.
    """
    query: Any = spark.streams.get(query_id)
    if query is None:
        return None, []
    try:
        running = query._jsq.streamingQuery()
        leaves = running.logicalPlan().collectLeaves()
        options = [
            dict(leaves.apply(index).relation().options().asCaseSensitiveMap())
            for index in range(leaves.size())
            if "odradek" in leaves.apply(index).toString()
        ]
        checkpoint = str(running.resolvedCheckpointRoot())
    except Py4JError:
        return None, []
    groups = [_group(each) for each in options]
    return checkpoint.removeprefix("file:"), [each for each in groups if each is not None]


def _group(options: Mapping[str, str]) -> str | None:
    """Return the group to which a source commits; None if it does not, or is of another format."""
    try:
        return read_options(options, streaming=True).group_id
    except ValueError:
        return None
