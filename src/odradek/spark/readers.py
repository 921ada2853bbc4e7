"""The batch and the streaming reader, which Spark calls.

Spark creates a reader in its planning process. In this process Spark requests offsets and splits
from the reader. Spark sends a pickled copy of the reader to each task, and the task calls `read`.
Connections are not pickled.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, commit_offsets
from odradek.client.deadline import monotonic_ms
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.spark import planning, pushdown, resolution
from odradek.spark.fetching import read_split, report_loss
from odradek.spark.offsets import JsonOffsets, Offsets, from_json, require_all, to_json
from odradek.spark.options import ReadOptions
from odradek.spark.planning import Split
from odradek.spark.pushdown import Pushed
from odradek.spark.typed import ValueDecoder


def _decoded(
    batches: Iterable[pa.RecordBatch], decoder: ValueDecoder | None
) -> Iterable[pa.RecordBatch]:
    return batches if decoder is None else map(decoder, batches)


class BatchReader(DataSourceReader):
    """Reads from a start to an end. Both are fixed when the query is planned."""

    def __init__(self, options: ReadOptions, decoder: ValueDecoder | None = None) -> None:
        self._options = options
        self._decoder = decoder
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        """Return the splits, one per task.

        Raises:
            ValueError: the options do not fit the topics.
            ClientError: no broker responds, or a topic does not exist.
        """
        options = self._options
        with resolution.connect(options.connection) as cluster:
            wanted = resolution.partitions(cluster, options.subscription)
            require_all(options.start, wanted, "startingOffsets")
            require_all(options.end, wanted, "endingOffsets")
            wanted = [each for each in wanted if self._pushed.selects(each)]
            start = resolution.resolve(cluster, options.start, wanted, options)
            end = resolution.resolve(cluster, options.end, wanted, options)
            ranges = {each: self._pushed.limited((start[each], end[each])) for each in wanted}
            if self._pushed.timestamp_ms is not None:
                ranges = self._after(cluster, self._pushed.timestamp_ms, ranges)
        return [*planning.splits(ranges, options.min_partitions, options.max_records_per_partition)]

    def _after(
        self, cluster: Cluster, time_ms: int, ranges: Mapping[TopicPartition, pushdown.Range]
    ) -> dict[TopicPartition, pushdown.Range]:
        """Let each range begin at the first record at or after a time. Drop ranges without one."""
        found = resolution.first_after(
            cluster, time_ms, [p for p, (a, b) in ranges.items() if a < b]
        )
        return {
            each: (max(ranges[each][0], start), ranges[each][1]) for each, start in found.items()
        }

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a split. If there are no splits, Spark calls this with another object."""
        if isinstance(partition, Split):
            yield from _decoded(read_split(self._options, partition), self._decoder)


class FilteringBatchReader(BatchReader):
    """A batch reader that uses the filters of the query.

    Spark refuses such readers if `spark.sql.python.filterPushdown.enabled` is false.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        """Use filters, and return those that Spark must check."""
        return list(self._pushed.take(filters))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. Spark stores the offsets in its checkpoint."""

    def __init__(self, options: ReadOptions, decoder: ValueDecoder | None = None) -> None:
        self._options = options
        self._decoder = decoder
        self._cluster: Cluster | None = None
        self._last_end: Offsets | None = None
        self._goal: Offsets | None = None
        """The offsets at which the query ends, with Trigger.AvailableNow."""
        self._batch_at_ms = 0
        self._shown: JsonOffsets | None = None
        self._has_warned = False

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the connections, for the copies in tasks."""
        return {**self.__dict__, "_cluster": None}

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = resolution.connect(self._options.connection)
        return self._cluster

    # -- offsets ----------------------------------------------------------------------------

    def initialOffset(self) -> JsonOffsets:  # noqa: N802  (Spark's name)
        """Return where a new query starts.

        Raises:
            ValueError: the options do not fit the topics.
            ClientError: no broker responds, or a topic does not exist.
        """
        cluster, options = self._connected(), self._options
        wanted = resolution.partitions(cluster, options.subscription)
        require_all(options.start, wanted, "startingOffsets")
        return to_json(resolution.resolve(cluster, options.start, wanted, options))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  (Spark's name)
        """Return the limit of the option `maxOffsetsPerTrigger`."""
        limit = self._options.max_records_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's name)
        """Store the current end offsets, at which the query ends."""
        self._goal = self._ends()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        """Return the end of the next micro-batch, within `limit`. Return `start` to wait for more.

        Raises:
            DataLossError: partitions or records no longer exist, and `failOnDataLoss` is set.
        """
        # Spark calls this method when the previous micro-batch is done, and `commit` only later.
        self._show_progress(start)
        end = dict(self._goal) if self._goal is not None else self._ends()
        begin = self._complete(from_json(start), end)
        if self._goal is None and self._too_few(begin, end):
            return start
        if isinstance(limit, ReadMaxRows):
            end = planning.limited(begin, end, limit.max_rows)
        self._batch_at_ms = monotonic_ms()
        return to_json(end)

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802  (Spark's name)
        """Return the last known end offsets, for the query's progress reports."""
        return None if self._last_end is None else to_json(self._last_end)

    def _ends(self) -> Offsets:
        cluster, options = self._connected(), self._options

        def ask() -> Offsets:
            wanted = resolution.partitions(cluster, options.subscription)
            return resolution.ends(cluster, wanted, options.read_committed)

        self._last_end = resolution.patiently(ask, options.connection.request_timeout_ms)
        return self._last_end

    def _complete(self, start: Offsets, end: Mapping[TopicPartition, int]) -> Offsets:
        """Return `start` for exactly the partitions of `end`.

        A new partition starts at the log start offset.

        Raises:
            DataLossError: a partition no longer exists, or the log of a partition ends before
                `start`, and `failOnDataLoss` is set.
        """
        fail = self._options.fail_on_data_loss
        gone = sorted(start.keys() - end.keys())
        if gone:
            report_loss(f"{', '.join(map(str, gone))} no longer exist", fail)
        for each in sorted(start.keys() & end.keys()):
            if start[each] > end[each]:
                report_loss(
                    f"partition {each} ends at {end[each]}, before offset {start[each]} that was "
                    "already read: was the topic created again?",
                    fail,
                )
        new = sorted(end.keys() - start.keys())
        found = resolution.beginnings(self._connected(), new) if new else {}
        return {each: start[each] if each in start else found[each] for each in end}

    def _too_few(self, begin: Offsets, end: Offsets) -> bool:
        """Return whether to wait for more records.

        A micro-batch needs `minOffsetsPerTrigger` records, or a wait of `maxTriggerDelay`.
        """
        wanted = self._options.min_records_per_trigger
        if wanted is None or sum(max(0, end[each] - begin[each]) for each in end) >= wanted:
            return False
        return monotonic_ms() - self._batch_at_ms < self._options.max_trigger_delay_ms

    # -- data -------------------------------------------------------------------------------

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> list[InputPartition]:
        """Return the splits of a micro-batch."""
        until = from_json(end)
        begin = self._complete(from_json(start), until)
        ranges = {each: (begin[each], until[each]) for each in until}
        options = self._options
        return [*planning.splits(ranges, options.min_partitions, options.max_records_per_partition)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a split. If there are no splits, Spark calls this with another object."""
        if isinstance(partition, Split):
            yield from _decoded(read_split(self._options, partition), self._decoder)

    # -- commit and stop --------------------------------------------------------------------

    def commit(self, end: JsonOffsets) -> None:
        """Commit the end offsets of a completed micro-batch to the consumer group."""
        self._show_progress(end)

    def _show_progress(self, processed: JsonOffsets) -> None:
        """Commit offsets to a consumer group, so that tools show the lag.

        Spark restarts from its checkpoint, not from these offsets. So a failure is only a warning.
        """
        group = self._options.group_id
        if group is None or processed == self._shown:
            return
        offsets = {each: CommittedOffset(offset) for each, offset in from_json(processed).items()}
        try:
            results = commit_offsets(self._connected(), group, offsets)
            errors = [error for error in results.values() if error is not None]
        except ClientError as error:
            errors = [error]
        if not errors:
            self._shown = processed
        elif not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"offsets of group {group} were not committed: {errors[0]}. Set groupId to another "
                "group, or commitOffsets=false. This warning is not repeated",
                stacklevel=2,
            )

    def stop(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
