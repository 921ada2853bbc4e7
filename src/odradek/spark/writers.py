"""The batch and the streaming writer, which Spark calls.

Without transactions rows are written at least once: tasks write as rows arrive, and if Spark
repeats a task or a micro-batch, its rows are written again. With transactions they are written
exactly once (`transactional`).

Spark creates a writer in the process that plans the write, and pickles it for the tasks. The
transaction begins then. The process that commits a micro-batch creates another writer, which is not
pickled.
"""

from __future__ import annotations

import contextlib
import pickle
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.producer.transactions import TransactionalProducer
from odradek.spark import garbage, sharing, transactional
from odradek.spark.markers import Marker
from odradek.spark.options import WriteOptions
from odradek.spark.producing import Sender
from odradek.spark.reporting import explained
from odradek.spark.resolution import connect, patiently
from odradek.spark.sharing import SharedSender, SharingError
from odradek.spark.topic_writer import Destination, TopicWriter, write_encoded
from odradek.spark.transactional import ForDriver, WriteConflictError, Written
from odradek.spark.typed import Encoders, encoders
from odradek.spark.write_schema import encoded_for, shared_for

QUERY_ID = "sql.streaming.queryId"
"""The property of a task that has the id of the streaming query. It is stored in the checkpoint."""


class NotBegunError(pickle.PicklingError):
    """The write cannot begin. Spark shows the message of a PicklingError as is."""


class Writer:
    """What the batch and the streaming writer have in common."""

    streaming: bool

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Raise ValueError if the options do not fit each other or the frame."""
        self._options = options
        self._schema = schema
        self._encoded = encoded_for(schema)
        self._is_shared = shared_for(schema) is not None
        self._encoders: Encoders | None = None
        wanted = options.exactly_once
        self._exactly_once = (
            self._is_shared or self._encoded is not None if wanted is None else wanted
        )
        if self._exactly_once and not options.idempotent:
            raise ValueError("exactly-once writes need acks=all and enable.idempotence=true")
        if self.streaming and options.application is not None:
            raise ValueError("txnAppId and txnVersion are for batch writes, as in foreachBatch")
        self._transactional_id = ""
        if self._exactly_once:
            self._transactional_id = transactional.transactional_id(
                options, streaming=self.streaming
            )
        self._producer: TransactionalProducer | None = None
        self._write_id = uuid.uuid4().hex

    def __getstate__(self) -> dict[str, Any]:
        """Register schemas and begin the transaction, because the tasks get a copy of this object.

        Raises:
            NotBegunError: the transaction cannot begin, or a column cannot be written.
        """
        if self._encoders is None and self._encoded is None:
            try:
                self._encoders = encoders(self._options, self._schema)
            except ValueError as error:
                raise NotBegunError(str(error)) from None
            except ClientError as error:
                raise NotBegunError(f"{error}. {error.advice}".strip()) from None
        if self._exactly_once and self._producer is None:
            has_marker = self.streaming or self._options.application is not None
            try:
                self._producer = transactional.begin(
                    self._options, self._transactional_id, has_marker=has_marker
                )
            except ClientError as error:
                message = f"the transaction cannot begin: {error}. {error.advice}"
                raise NotBegunError(message.strip()) from error
        return self.__dict__

    @explained()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Wait until a broker can be reached, and write the rows of one task.

        Raises:
            WriteConflictError: an earlier attempt of the task may have written rows.
            ClusterError: no broker can be reached, or a broker returns an error.
        """
        garbage.leave_out_modules()
        options, producer = self._options, self._producer
        with connect(options.connection) as cluster:
            patiently(lambda: cluster.refresh([]), options.connection.request_timeout_ms)
            if producer is None:
                return Written(self._write(cluster, Sender(cluster, options), iterator))
            context = TaskContext.get()
            assert context is not None, "Spark runs this method in a task"
            query_id = context.getLocalProperty(QUERY_ID)
            if self._encoded is None and not self._is_shared:
                collected = ForDriver()
                rows = self._write(cluster, collected, iterator)
                return Written(rows, producer, query_id, batches=collected.batches)
            if context.attemptNumber() > 0:
                raise WriteConflictError(
                    "a task of an exactly-once write has failed before (Spark's log has the "
                    "reason). It is not repeated, because its rows may be in the transaction, "
                    "which is aborted"
                )
            if self._is_shared:
                return self._write_in_turns(cluster, producer, query_id, iterator)
            sender = Sender(cluster, options, producer)
            rows = self._write(cluster, sender, iterator)
            return Written(rows, producer, query_id, partitions=sender.partitions)

    def _write_in_turns(
        self,
        cluster: Cluster,
        producer: TransactionalProducer,
        query_id: str | None,
        iterator: Iterator[pa.RecordBatch],
    ) -> Written:
        sender = SharedSender(cluster, self._options, producer, self._write_id)
        try:
            rows = self._write(cluster, sender, iterator)
        except SharingError as error:
            raise WriteConflictError(str(error)) from None
        counts = dict(sender.record_counts)
        return Written(rows, producer, query_id, shared=counts, files=sender.files)

    def _write(
        self, cluster: Cluster, destination: Destination, batches: Iterator[pa.RecordBatch]
    ) -> int:
        """Write rows, or the encoded records of rows, and count them."""
        if self._encoded is not None:
            return write_encoded(destination, self._encoded, batches)
        assert self._encoders is not None, "this is a copy"
        writer = TopicWriter(cluster, self._options, destination, self._encoders)
        return writer.write(batches)


class BatchWriter(Writer, DataSourceArrowWriter):
    """Appends the rows of a query to topics."""

    streaming = False

    @explained()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the transaction. Without a transaction, the rows are already in the topics.

        Raises:
            WriteConflictError, ClusterError: the rows cannot be committed, or it is unknown whether
                they are committed.
        """
        garbage.leave_out_modules()
        with _last_use(messages) as written:
            if self._producer is None:
                return
            marker = None
            if self._options.application is not None:
                marker = Marker(*self._options.application)
            if marker is not None or any(each.rows for each in written):
                transactional.commit(self._options, self._producer, written, marker)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the transaction."""
        with _last_use(messages):
            if self._producer is not None:
                transactional.abort(self._options, self._producer)


class StreamWriter(Writer, DataSourceStreamArrowWriter):
    """Appends the rows of each micro-batch to topics."""

    streaming = True

    @explained()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit the transaction. Without a transaction, the rows are already in the topics.

        Raises:
            WriteConflictError, ClusterError: the rows cannot be committed, or it is unknown whether
                they are committed. If the query starts again, its marker shows whether they are.
        """
        with _last_use(messages) as all_written:
            written = _of_transaction(all_written)
            if not written:
                return
            query_id = written[0].query_id
            assert query_id is not None, "tasks of a streaming query have its id"
            assert written[0].producer is not None
            offsets = transactional.source_offsets(self._options.checkpoint, batchId)
            marker = Marker(query_id, batchId, offsets)
            transactional.commit(self._options, written[0].producer, written, marker)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort the transaction.

        If no task has succeeded, the producer id is unknown here. Then the transaction is aborted
        when the query starts again, or after `kafka.transaction.timeout.ms`.
        """
        del batchId
        with _last_use(messages) as written:
            for each in _of_transaction(written)[:1]:
                assert each.producer is not None
                transactional.abort(self._options, each.producer)


@contextlib.contextmanager
def _last_use(messages: Sequence[WriterCommitMessage | None]) -> Iterator[list[Written]]:
    """Yield the messages of tasks, and then remove the file with their sequence numbers."""
    written = [each for each in messages if isinstance(each, Written)]
    try:
        yield written
    finally:
        sharing.remove(path for each in written for path in each.files)


def _of_transaction(written: Sequence[Written]) -> list[Written]:
    """Return the messages of tasks that wrote in a transaction."""
    return [each for each in written if each.producer is not None]
