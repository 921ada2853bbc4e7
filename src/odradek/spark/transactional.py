"""Exactly-once writes: one transaction for all tasks of a write, which the driver begins and ends.

1. `begin`: the driver gets a producer id with a new epoch for the transactional id of the query.
   So drivers and tasks of earlier attempts are fenced, and their open transaction is aborted.
2. Tasks write the rows, or give them to the driver:
   - If the frame comes from `distribution.by_partition`, the tasks write to the partitions with the
     producer id and the epoch of the driver. On a cluster each partition has one task; on one
     machine the tasks share the sequence numbers (`sharing`). An attempt after the first would write
     rows again that the first attempt has written, so it fails, and with it the write.
   - Otherwise several tasks have rows for a partition, but a partition can only have one writer,
     because brokers check the sequence numbers. So the tasks return encoded batches (`ForDriver`),
     and the driver writes them. Then tasks may be repeated. The size of the write is limited.
3. `commit`: the driver looks up the marker of the query (`markers`). If the marker has the number
   of this write, the write was committed before, and the driver aborts the transaction. Otherwise
   it writes the rows that the tasks returned and a new marker, and commits the transaction.

The driver calls `begin` in the process that plans the write, and `commit` in another process. The
commit messages of the tasks contain all that `commit` needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql.datasource import WriterCommitMessage

from odradek.arrow.encoding import EncodedRecords
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError
from odradek.client.producer.transactions import (
    TransactionalProducer,
    end_transaction,
    init_producer,
    is_fenced,
)
from odradek.env.clock import SystemClock
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.spark import markers, sharing
from odradek.spark.markers import Marker
from odradek.spark.options import WriteOptions
from odradek.spark.producing import Sender
from odradek.spark.resolution import connect, patiently
from odradek.spark.sharing import SharingError
from odradek.spark.topic_writer import in_rounds

PREFIX = "odradek-spark-"
"""The beginning of transactional ids that are not set by the user."""
FOR_DRIVER_BYTES_MAX = 64 << 20
"""The maximum size of the rows that one task gives to the driver."""

T = TypeVar("T")


class WriteConflictError(RuntimeError):
    """The write cannot be committed exactly once, so it is aborted."""


@dataclass
class Written(WriterCommitMessage):
    """The result that a task returns to the driver. At-least-once writes set only `rows`."""

    rows: int
    producer: TransactionalProducer | None = None
    query_id: str | None = None
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions to which the task has written."""
    batches: dict[TopicPartition, list[tuple[bytes, int]]] = field(default_factory=dict)
    """Encoded records that the driver must write, with their number of records."""
    shared: dict[TopicPartition, int] = field(default_factory=dict)
    """The number of records that the task has written in turns with other tasks (`sharing`)."""
    files: frozenset[str] = frozenset()
    """The file with the sequence numbers of these tasks, which nobody needs after the write."""


class ForDriver:
    """Takes the batches of a task, which the driver writes later."""

    def __init__(self) -> None:
        self.batches: dict[TopicPartition, list[tuple[bytes, int]]] = {}
        self._bytes = 0

    def send(self, records: dict[TopicPartition, EncodedRecords], timestamp_ms: int) -> None:
        """Keep the batches. The driver sets their timestamps when it writes them.

        Raises:
            ValueError: the rows are too large.
        """
        del timestamp_ms
        for partition, encoded in records.items():
            self._bytes += len(encoded.data)
            batch = (bytes(encoded.data), encoded.record_count)
            self.batches.setdefault(partition, []).append(batch)
        if self._bytes > FOR_DRIVER_BYTES_MAX:
            raise ValueError(
                f"a task has more than {FOR_DRIVER_BYTES_MAX >> 20} MiB for an exactly-once write "
                "through the driver. Pass the frame through odradek.spark.by_partition, so that "
                "tasks write their rows themselves; or read less per micro-batch "
                "(maxOffsetsPerTrigger); or set deliveryGuarantee=at-least-once"
            )

    def flush(self) -> None:
        """Do nothing: no request is in flight."""


def transactional_id(options: WriteOptions, *, streaming: bool) -> str:
    """Return the same id for each start of the same query, and a new id for other batch writes.

    Raises:
        ValueError: the query has no `checkpointLocation` from which to derive the id.
    """
    if options.transactional_id is not None:
        return options.transactional_id
    if streaming:
        if options.checkpoint is None:
            raise ValueError(
                "exactly-once writes of a streaming query need the option checkpointLocation (or "
                "kafka.transactional.id) of writeStream, so that a restarted query fences the "
                "previous one"
            )
        path = options.checkpoint
        return PREFIX + (path if "://" in path else os.path.abspath(path.removeprefix("file:")))
    if options.application is not None:
        return PREFIX + options.application[0]
    return f"{PREFIX}{uuid.uuid4()}"


def begin(
    options: WriteOptions, transactional_id: str, *, has_marker: bool
) -> TransactionalProducer:
    """Begin a transaction, and fence earlier writers with the same transactional id.

    Raises:
        ClientError: the coordinator does not respond, or returns an error.
    """

    def attempt() -> TransactionalProducer:
        producer = init_producer(cluster, transactional_id, options.transaction_timeout_ms)
        if has_marker:
            markers.create_topic(cluster)
        return producer

    with connect(options.connection) as cluster:
        return _patiently(options, attempt)


def commit(
    options: WriteOptions,
    producer: TransactionalProducer,
    messages: Sequence[Written],
    marker: Marker | None,
) -> bool:
    """Commit the transaction with a marker. Return False if the write was committed before.

    Raises:
        WriteConflictError: two tasks wrote to the same partition without shared sequence numbers,
            or another writer with the same transactional id has fenced this one.
        ClientError: the coordinator does not respond, or returns an error.
    """
    _check_owners(messages)
    with connect(options.connection) as cluster, _explained(producer):
        if marker is not None:
            last = _patiently(options, lambda: markers.last(cluster, marker.key))
            if last is not None and last.number >= marker.number:
                _abort(cluster, options, producer)
                return False
        _write(cluster, options, producer, messages, marker)
        _end(cluster, options, producer)
    return True


def _write(
    cluster: Cluster,
    options: WriteOptions,
    producer: TransactionalProducer,
    messages: Iterable[Written],
    marker: Marker | None,
) -> None:
    """Write the rows that the tasks returned, and the marker."""
    batches: dict[TopicPartition, list[EncodedRecords]] = {}
    for message in messages:
        for partition, pieces in message.batches.items():
            encoded = [EncodedRecords(memoryview(data), count) for data, count in pieces]
            batches.setdefault(partition, []).extend(encoded)
    if marker is not None:
        batches[markers.PARTITION] = [markers.encoded(marker)]
    if not batches:
        return
    sender = _patiently(options, lambda: Sender(cluster, options, producer))
    now_ms = SystemClock().now_ms()
    for round_ in in_rounds({each: iter(pieces) for each, pieces in batches.items()}):
        sender.send(round_, now_ms)
    sender.flush()


def _end(cluster: Cluster, options: WriteOptions, producer: TransactionalProducer) -> None:
    """Commit the transaction."""
    _patiently(options, lambda: end_transaction(cluster, producer, committed=True))


def abort(options: WriteOptions, producer: TransactionalProducer) -> None:
    """Abort the transaction, unless it has ended.

    Raises:
        ClientError: the coordinator does not respond, or returns an error.
    """
    with connect(options.connection) as cluster:
        _abort(cluster, options, producer)


def _abort(cluster: Cluster, options: WriteOptions, producer: TransactionalProducer) -> None:
    try:
        _patiently(options, lambda: end_transaction(cluster, producer, committed=False))
    except BrokerError as error:
        # There is no transaction if nothing was written, or if it has ended.
        if error.code != ErrorCode.INVALID_TXN_STATE and not is_fenced(error):
            raise


def _check_owners(messages: Sequence[Written]) -> None:
    """Check that no partition was written by two tasks, unless they shared its sequence numbers.

    Else the second task of a partition may have got the acknowledgements of the first one, because
    both used the same sequence numbers.
    """
    owners = Counter(each for message in messages for each in message.partitions)
    shared = sorted(each for each, tasks in owners.items() if tasks > 1)
    if shared:
        raise WriteConflictError(
            f"several tasks wrote to {', '.join(map(str, shared))}, so nothing is committed. The "
            "frame must be written as odradek.spark.by_partition returns it, without a later "
            "repartition or coalesce"
        )
    if any(
        markers.PARTITION in m.partitions | m.batches.keys() | m.shared.keys() for m in messages
    ):
        raise WriteConflictError(
            f"the topic {markers.TOPIC} is reserved for the markers of queries"
        )
    try:
        sharing.check(
            (path for each in messages for path in each.files), (each.shared for each in messages)
        )
    except SharingError as error:
        raise WriteConflictError(str(error)) from None


@contextlib.contextmanager
def _explained(producer: TransactionalProducer) -> Iterator[None]:
    """Explain the error of a fenced producer.

    Raises:
        WriteConflictError: the producer is fenced.
    """
    try:
        yield
    except BrokerError as error:
        if not is_fenced(error):
            raise
        raise WriteConflictError(
            f"another writer uses the transactional id {producer.transactional_id}, or the write "
            "took longer than kafka.transaction.timeout.ms. Nothing of it is visible to readers "
            "with read_committed. Start the query again if no other one uses the id"
        ) from error


def _patiently(options: WriteOptions, call: Callable[[], T]) -> T:
    return patiently(call, options.connection.request_timeout_ms)


def source_offsets(checkpoint: str | None, batch_id: int) -> Any:
    """Return the end offsets of the query's sources in a micro-batch, from a local checkpoint.

    Spark stores them before the micro-batch: a line with the version, a line with metadata, and a
    line for each source. The marker has them for people; nothing depends on them. So the result is
    None if the checkpoint is not a local directory.
    """
    if checkpoint is None or ("://" in checkpoint and not checkpoint.startswith("file://")):
        return None
    directory = checkpoint.removeprefix("file://").removeprefix("file:")
    try:
        with open(os.path.join(directory, "offsets", str(batch_id)), encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().splitlines()[2:]]
    except (OSError, ValueError):
        return None
