"""Reads one split, from segment files if the options ask for it, and otherwise from its leader.

A response of the leader is decoded while the next fetch is in flight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from odradek.arrow import batches, columns
from odradek.client.cluster import Cluster
from odradek.client.deadline import Deadline
from odradek.client.errors import BrokerError
from odradek.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from odradek.client.partition_fetch import PartitionFetch
from odradek.env.file_range import FileRange
from odradek.model.errors import ErrorCode
from odradek.spark.options import ReadFrom, ReadOptions
from odradek.spark.planning import Split
from odradek.spark.resolution import (
    DataLossError,
    beginnings,
    connect,
    ends,
    patiently,
    report_loss,
)
from odradek.spark.segment_reading import SegmentReader
from odradek.wire.generated.fetch_response import PartitionData

FETCH_WAIT_MS = 500
FIRST_FETCH_BYTES = 1 << 20
"""The size of the first fetch, before the size of records is known."""
MARGIN = 1.25
"""The factor by which the size of a fetch is larger than the estimate."""
ARROW_BATCH_BYTES = 32 << 20
"""Arrow batches larger than this are passed to Spark in slices."""


def read_split(options: ReadOptions, split: Split) -> Iterator[pa.RecordBatch]:
    """Read the records of a split, in order, over a separate connection.

    Raises:
        DataLossError: records of the split no longer exist, and `failOnDataLoss` is set. Or the
            broker returned no records for the duration of the request timeout.
        ClientError: the cluster does not respond.
        RecordsError: the received data is corrupt.
        ReplicaError: this machine has no replica that can be read, and readFrom is `segments`.
    """
    with connect(options.connection) as cluster:
        for batch in _whole_batches(cluster, options, split):
            step = max(1, batch.num_rows * ARROW_BATCH_BYTES // max(1, batch.nbytes))
            for start in range(0, batch.num_rows, step):
                yield batch.slice(start, step)


def _whole_batches(
    cluster: Cluster, options: ReadOptions, split: Split
) -> Iterator[pa.RecordBatch]:
    if options.read_from is not ReadFrom.BROKER:
        local = SegmentReader(cluster, options, split)
        yield from local
        split = replace(split, start=local.next_offset)
    yield from SplitReader(cluster, options, split)


class SplitReader:
    """Iterates over the Arrow batches of one split, from the leader."""

    def __init__(self, cluster: Cluster, options: ReadOptions, split: Split) -> None:
        self._cluster = cluster
        self._options = options
        self._split = split
        isolation = READ_COMMITTED if options.read_committed else READ_UNCOMMITTED
        self._fetches = PartitionFetch(cluster, split.topic_partition, isolation, FETCH_WAIT_MS)
        self._bytes_per_offset: float | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        split = self._split
        offset = split.start
        patience = Deadline(self._options.connection.request_timeout_ms)
        while offset < split.end:
            try:
                data = self._fetch(offset)
            except BrokerError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                offset = self._after_loss(offset)
                continue
            records = data.records or b""
            assert not isinstance(records, FileRange), "records of a response are bytes"
            scan = batches.scan(records, offset, split.end, self._aborted(data))
            if scan.next_offset == offset:
                self._check_progress(data, offset, patience)
                continue
            self._bytes_per_offset = len(records) / (scan.next_offset - offset)
            patience = Deadline(self._options.connection.request_timeout_ms)
            wanted = range(offset, split.end)
            offset = scan.next_offset
            if offset < split.end:
                self._send_ahead(offset)
            yield from columns.record_batches(
                scan, *split.topic_partition, wanted, self._options.reads_headers
            )

    # -- fetches ----------------------------------------------------------------------------

    def _fetch(self, offset: int) -> PartitionData:
        return patiently(
            lambda: self._fetches.fetch(offset, self._size_wanted(offset)),
            self._options.connection.request_timeout_ms,
        )

    def _send_ahead(self, offset: int) -> None:
        self._fetches.send_ahead(offset, self._size_wanted(offset))

    def _size_wanted(self, offset: int) -> int:
        """Return the size of the next fetch, estimated from the size of the records so far."""
        if self._bytes_per_offset is None:
            wanted = FIRST_FETCH_BYTES
        else:
            wanted = int((self._split.end - offset) * self._bytes_per_offset * MARGIN)
        return min(max(wanted, 64 << 10), self._options.fetch_max_bytes)

    def _aborted(self, data: PartitionData) -> batches.AbortedTransactions | None:
        if not self._options.read_committed:
            return None
        return batches.AbortedTransactions(
            (each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
        )

    # -- failures ----------------------------------------------------------------------------

    def _check_progress(self, data: PartitionData, offset: int, patience: Deadline) -> None:
        """Check the time that is left for retries after an empty response.

        A batch larger than the request is always returned, so an empty response has another cause.

        Raises:
            DataLossError: the time has passed.
        """
        if patience.expired:
            raise DataLossError(
                f"partition {self._split.topic_partition} returns no records at offset {offset}: "
                f"its last stable offset is {data.last_stable_offset}, the read ends at "
                f"{self._split.end}"
            )

    def _after_loss(self, offset: int) -> int:
        """Return the offset to continue at, because `offset` is not in the log.

        Raises:
            DataLossError: `failOnDataLoss` is set.
        """
        partition = self._split.topic_partition
        first = beginnings(self._cluster, [partition])[partition]
        last = ends(self._cluster, [partition], self._options.read_committed)[partition]
        following = first if offset < first else self._split.end
        message = (
            f"offsets {offset} to {min(following, self._split.end) - 1} of {partition} no longer "
            f"exist: it has {first} to {last - 1}"
        )
        report_loss(message, self._options.fail_on_data_loss)
        return following
