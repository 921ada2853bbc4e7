"""The batch and the streaming reader, which Spark calls.

Spark creates a reader in its planning process. In this process Spark requests offsets and splits
from the reader. Spark sends a pickled copy of the reader to each task, and the task calls `read`.
Connections are not pickled. What decodes records is imported by tasks only, because each streaming
query starts a new planning process.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

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
from odradek.spark import garbage, planning, pushdown, resolution
from odradek.spark.offsets import (
    JsonOffsets,
    Listed,
    Offsets,
    from_json,
    ids_in,
    require_all,
    to_json,
)
from odradek.spark.options import ReadOptions
from odradek.spark.planning import Split
from odradek.spark.pushdown import Pushed
from odradek.spark.reporting import explained
from odradek.spark.resolution import report_loss

if TYPE_CHECKING:
    from odradek.spark.typed import RowDecoder


def _read(
    options: ReadOptions, decoder: RowDecoder | None, split: Split
) -> Iterable[pa.RecordBatch]:
    """Return the rows of a split, decoded. Tasks call this."""
    from odradek.spark.fetching import read_split

    garbage.leave_out_modules()
    batches = read_split(options, split)
    if decoder is None:
        return batches
    if options.bad_records is None:
        return map(decoder, batches)
    from odradek.spark import dead_letters

    return dead_letters.decoded(batches, decoder, options)


class BatchReader(DataSourceReader):
    """Reads from a start to an end. Both are fixed when the query is planned."""

    def __init__(self, options: ReadOptions, decoder: RowDecoder | None = None) -> None:
        self._options = options
        self._decoder = decoder
        self._pushed = Pushed()

    @explained()
    def partitions(self) -> list[InputPartition]:
        """Return the splits, one per task.

        Raises:
            ValueError: the options do not fit the topics, or a start is after its end.
            ClusterError: no broker responds, or a topic does not exist.
        """
        garbage.leave_out_modules()
        options = self._options
        with resolution.connect(options.connection) as cluster:
            wanted = resolution.partitions(cluster, options.subscription)
            require_all(options.start, wanted, "startingOffsets")
            require_all(options.end, wanted, "endingOffsets")
            wanted = [each for each in wanted if self._pushed.selects(each)]
            start = resolution.resolve(cluster, options.start, wanted, options)
            end = resolution.resolve(cluster, options.end, wanted, options)
            resolution.check_order(options, start, end)
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
            with explained():
                yield from _read(self._options, self._decoder, partition)


class FilteringBatchReader(BatchReader):
    """A batch reader that uses the filters of the query.

    Spark refuses such readers if `spark.sql.python.filterPushdown.enabled` is false.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        """Use filters, and return those that Spark must check."""
        return list(self._pushed.take(filters))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. Spark stores the offsets in its checkpoint."""

    def __init__(self, options: ReadOptions, decoder: RowDecoder | None = None) -> None:
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

    @explained()
    def initialOffset(self) -> JsonOffsets:  # noqa: N802  (Spark's name)
        """Return where a new query starts.

        Raises:
            ValueError: the options do not fit the topics.
            ClusterError: no broker responds, or a topic does not exist.
        """
        cluster, options = self._connected(), self._options
        wanted = resolution.partitions(cluster, options.subscription)
        require_all(options.start, wanted, "startingOffsets")
        start = resolution.resolve(cluster, options.start, wanted, options)
        if isinstance(options.start, Listed):
            end = resolution.ends(cluster, wanted, read_committed=False)
            resolution.check_start(options, start, end)
        return to_json(start, self._ids())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  (Spark's name)
        """Return the limit of the option `maxOffsetsPerTrigger`."""
        limit = self._options.max_records_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    @explained()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's name)
        """Store the current end offsets, at which the query ends."""
        self._goal = self._ends()

    @explained()
    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        """Return the end of the next micro-batch, within `limit`. Return `start` to wait for more.

        Raises:
            DataLossError: partitions or records no longer exist, and `failOnDataLoss` is set.
        """
        # Spark calls this method when the previous micro-batch is done, and `commit` only later.
        self._show_progress(start)
        end = dict(self._goal) if self._goal is not None else self._ends()
        ids = self._ids()
        begin = self._complete(start, end, ids)
        if self._goal is None and self._too_few(begin, end):
            return start
        if isinstance(limit, ReadMaxRows):
            end = planning.limited(begin, end, limit.max_rows)
        self._batch_at_ms = monotonic_ms()
        return to_json(end, ids)

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

    def _ids(self) -> dict[str, str]:
        """Return the ids of topics. Brokers before Apache Kafka 2.8 have none."""
        topics = self._connected().metadata.topics.values()
        return {topic.name: topic.id.hex() for topic in topics if any(topic.id)}

    def _complete(
        self, since: JsonOffsets, end: Mapping[TopicPartition, int], ids: Mapping[str, str]
    ) -> Offsets:
        """Return the offsets of `since` for exactly the partitions of `end`, whose topics have `ids`.

        A new partition starts at the log start offset. So do the partitions of a topic that was
        created again.

        Raises:
            ValueError: the checkpoint is that of a query on other topics.
            DataLossError: a partition no longer exists, or the log of a partition ends before
                `start`, and `failOnDataLoss` is set.
        """
        options, fail = self._options, self._options.fail_on_data_loss
        for offsets in (from_json(since), end):
            resolution.check_subscribed(offsets, options.subscription)
        known = ids_in(since)
        again = sorted(each for each in known if ids.get(each, known[each]) != known[each])
        if again:
            report_loss(f"topic {', '.join(again)} was deleted and created again", fail)
        start = {each: at for each, at in from_json(since).items() if each.topic not in again}
        gone = sorted(start.keys() - end.keys())
        lost = [each for each in gone if resolution.is_subscribed(options.subscription, each)]
        left = [each for each in gone if each not in lost]
        if lost:
            report_loss(f"{', '.join(map(str, lost))} no longer exist", fail)
        if left:
            names = ", ".join(map(str, left))
            report_loss(f"the checkpoint has {names}, which this query does not read", fail)
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

    @explained()
    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> list[InputPartition]:
        """Return the splits of a micro-batch."""
        until = from_json(end)
        begin = self._complete(start, until, ids_in(end))
        self._check_ids(ids_in(end))
        ranges = {each: (begin[each], until[each]) for each in until}
        options = self._options
        return [*planning.splits(ranges, options.min_partitions, options.max_records_per_partition)]

    def _check_ids(self, planned: Mapping[str, str]) -> None:
        """Check that the topics are those for which a micro-batch was planned.

        The micro-batch may have been planned before the query was started again. Later micro-batches
        are planned with the metadata of this process.

        Raises:
            DataLossError: a topic was created again, and `failOnDataLoss` is set.
        """
        if not self._connected().metadata.topics:
            options, cluster = self._options, self._connected()
            resolution.patiently(
                lambda: resolution.partitions(cluster, options.subscription),
                options.connection.request_timeout_ms,
            )
        ids = self._ids()
        again = sorted(each for each in planned if ids.get(each, planned[each]) != planned[each])
        if again:
            report_loss(
                f"topic {', '.join(again)} was deleted and created again",
                self._options.fail_on_data_loss,
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a split. If there are no splits, Spark calls this with another object."""
        if isinstance(partition, Split):
            with explained():
                yield from _read(self._options, self._decoder, partition)

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
