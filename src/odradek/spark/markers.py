"""Markers: the last write of each query that was committed to a cluster.

A marker is a record in the topic `odradek-spark-commits`. The key is the id of the streaming query
(or the `txnAppId` of the user), the value is the number of the write as JSON. The marker is written
in the transaction of the rows, so it is committed if and only if the rows are. If Spark repeats a
write that was committed, the marker has its number, and the write is omitted.

The topic is compacted: it keeps the last marker of each key, without a time limit. Offsets of a
consumer group would expire a week after the last write (offsets.retention.minutes).

`last` reads the topic without `read_committed`, and uses the control records to see which markers
are committed. A reader with `read_committed` stops at the first open transaction, which may be that
of another query. `last` must be called after `init_producer`: then all earlier transactions of the
query have ended in all partitions.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from odradek.arrow.encoding import EncodedRecords, Rows, encode_records
from odradek.client.admin.topics import NewTopic, create_topics, exists_already
from odradek.client.cluster import Cluster
from odradek.client.deadline import Deadline
from odradek.client.errors import BrokerError, ClientError, NoSuchTopicError
from odradek.client.offsets import EARLIEST, LATEST, READ_UNCOMMITTED, offsets_at
from odradek.client.partition_fetch import PartitionFetch
from odradek.env.file_range import FileRange
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import Buffer, RecordBatch, iterate_batches
from odradek.records.control import read_end_of_transaction
from odradek.records.record import iterate_records

TOPIC = "odradek-spark-commits"
PARTITION = TopicPartition(TOPIC, 0)
TRANSACTIONS_TOPIC = "__transaction_state"
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20)}
"""Small segments, because the segment that is written to is not compacted."""
FETCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Marker:
    """The number of a write of `key`. `offsets` has the end offsets of the query's sources."""

    key: str
    number: int
    offsets: Any = None


def create_topic(cluster: Cluster) -> None:
    """Create the topic if it does not exist, with as many replicas as the transactions have.

    If the topic of the transactions cannot be described, the number is the default of the cluster.

    Raises:
        ClientError: the topic cannot be created, or no broker responds.
    """
    with contextlib.suppress(NoSuchTopicError):
        cluster.topic(TOPIC)
        return
    replicas = -1
    with contextlib.suppress(BrokerError):
        replicas = cluster.topic(TRANSACTIONS_TOPIC).replication_factor
    created = create_topics(cluster, [NewTopic(TOPIC, 1, replicas, SETTINGS)])[TOPIC]
    if isinstance(created, ClientError) and not exists_already(created):
        raise created


def encoded(marker: Marker) -> EncodedRecords:
    """Return the record of a marker."""
    value = json.dumps({"number": marker.number, "offsets": marker.offsets})
    rows = Rows(
        value=pa.array([value.encode()], pa.binary()),
        key=pa.array([marker.key.encode()], pa.binary()),
    )
    return next(encode_records(rows, 1))


def last(cluster: Cluster, key: str) -> Marker | None:
    """Return the last committed marker of a key.

    Raises:
        ClientError: no broker responds, or it returns an error.
    """
    found = _Committed(key.encode())
    offset = offsets_at(cluster, [PARTITION], EARLIEST)[PARTITION]
    # A new leader answers only when its high watermark is not too low (KIP-207).
    end = offsets_at(cluster, [PARTITION], LATEST)[PARTITION]
    fetches = PartitionFetch(cluster, PARTITION, READ_UNCOMMITTED, 0)
    while offset < end:
        for batch in iterate_batches(_fetch(cluster, fetches, offset)):
            batch.check()
            found.read(batch)
            offset = max(offset, batch.next_offset)
    return found.marker


class _Committed:
    """Finds the last committed marker of a key in batches, which are read in order."""

    def __init__(self, key: bytes) -> None:
        self.marker: Marker | None = None
        self._key = key
        self._open: dict[int, Marker] = {}
        """The markers of transactions that have not ended yet, by producer id."""

    def read(self, batch: RecordBatch) -> None:
        """Read the next batch."""
        if batch.is_control:
            marker = self._open.pop(batch.producer_id, None)
            end = read_end_of_transaction(batch)
            if marker is not None and end is not None and end.committed:
                self.marker = marker
            return
        for record in iterate_records(batch):
            if record.key == self._key and record.value is not None:
                value = json.loads(record.value)
                marker = Marker(self._key.decode(), value["number"], value["offsets"])
                self._open[batch.producer_id] = marker


def _fetch(cluster: Cluster, fetches: PartitionFetch, offset: int) -> Buffer:
    """Return at least one batch from `offset` on."""

    def attempt(_: Deadline) -> Buffer:
        records = fetches.fetch(offset, FETCH_BYTES).records
        assert not isinstance(records, FileRange), "records of a response are bytes"
        if not records:
            cluster.forget_topic(TOPIC)
            raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, subject=f"partition {PARTITION}")
        return records

    return cluster.retrying(attempt)
