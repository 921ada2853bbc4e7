"""The batch and the streaming writer, which Spark calls. Both write as rows arrive.

Rows are written at least once. If Spark repeats a task or a micro-batch, the rows are written
again. Readers of the topic can remove duplicates by a key or a window.

A possible extension writes each row exactly once. The driver would begin a transaction, tasks would
pass its producer id and epoch to `Sender`, and `commit` would end the transaction.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from odradek.client.cluster import Cluster
from odradek.env.clock import SystemClock
from odradek.model.topic_partition import TopicPartition
from odradek.spark.columns import HEADERS_TYPE
from odradek.spark.encoding import EncodedRecords, Rows, encode_records
from odradek.spark.options import WriteOptions
from odradek.spark.partitioning import partitions_of_keys
from odradek.spark.producing import Sender
from odradek.spark.resolution import connect, patiently

CHUNK_BYTES = 8 << 20
"""Rows are collected up to about this size in bytes before they are encoded."""

COLUMN_TYPES: dict[str, tuple[DataType, ...]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "headers": (HEADERS_TYPE,),
}
"""The columns that are used, as in Spark's own Kafka sink. Other columns are ignored."""


@dataclass
class Written(WriterCommitMessage):
    """The result that a task returns to the driver."""

    rows: int


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Check the columns before any row is written.

    Raises:
        ValueError: a column is missing or of the wrong type.
    """
    columns = {field.name: field.dataType for field in schema.fields}
    if "value" not in columns:
        raise ValueError(f"a column 'value' is needed; there are {', '.join(columns) or 'none'}")
    if "topic" not in columns and options.topic is None:
        raise ValueError("no topic: give the option 'topic', or a column 'topic'")
    for name, allowed in COLUMN_TYPES.items():
        if name in columns and not any(_same(columns[name], each) for each in allowed):
            names = " or ".join(each.simpleString() for each in allowed)
            raise ValueError(
                f"column '{name}' must be of type {names}; it is {columns[name].simpleString()}"
            )


def _same(one: DataType, other: DataType) -> bool:
    """Return whether two types are equal except for nullability."""
    return one.simpleString() == other.simpleString()


class TopicWriter:
    """Collects Arrow batches, and writes their rows to partitions."""

    def __init__(self, cluster: Cluster, options: WriteOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._sender = Sender(cluster, options)
        self._clock = SystemClock()
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._keyless = random.randrange(1 << 16)  # noqa: S311  (spreads load)

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write all rows, wait until all are acknowledged, and return their number.

        Raises:
            ValueError: a row has no topic, or a partition that does not exist.
            ClientError: a broker rejects a batch or does not respond.
        """
        count = 0
        for batch in batches:
            for start, size in _portions(batch):
                self._gathered.append(batch.slice(start, size))
                self._gathered_bytes += batch.nbytes * size // max(1, batch.num_rows)
                if self._gathered_bytes >= CHUNK_BYTES:
                    self._write_gathered()
            count += batch.num_rows
        self._write_gathered()
        self._sender.flush()
        return count

    def _write_gathered(self) -> None:
        if not self._gathered:
            return
        table = pa.Table.from_batches(self._gathered).combine_chunks()
        self._gathered, self._gathered_bytes = [], 0
        for topic, rows, partition in self._by_topic(table):
            self._write_topic(topic, rows, partition)
        self._keyless += 1

    def _by_topic(self, table: pa.Table) -> Iterator[tuple[str, Rows, pa.Int32Array | None]]:
        """Yield the rows of each topic. The option `topic` overrides the column, as in Spark."""
        rows = Rows(
            value=_binary(_column(table, "value")),
            key=None if "key" not in table.column_names else _binary(_column(table, "key")),
            headers=_column(table, "headers") if "headers" in table.column_names else None,
        )
        partition = _column(table, "partition") if "partition" in table.column_names else None
        if self._options.topic is not None:
            yield self._options.topic, rows, partition
            return
        topics = _column(table, "topic")
        if topics.null_count:
            raise ValueError("a row has no topic: its column 'topic' is null")
        for topic in pc.unique(topics).to_pylist():
            index = np.flatnonzero(pc.equal(topics, topic).to_numpy(zero_copy_only=False))
            of_topic = None if partition is None else partition.take(pa.array(index))
            yield topic, rows.take(index), of_topic

    def _write_topic(self, topic: str, rows: Rows, named: pa.Int32Array | None) -> None:
        count = len(self._cluster.topic(topic, create=True).partitions)
        chosen = self._partitions(topic, rows, named, count)
        order = np.argsort(chosen, kind="stable")
        ordered = rows.take(order)
        present, first = np.unique(chosen[order], return_index=True)
        bounds = [*first.tolist(), len(order)]
        pieces = {
            TopicPartition(topic, partition): encode_records(
                ordered.slice(start, stop), self._options.batch_size
            )
            for partition, start, stop in zip(present.tolist(), bounds, bounds[1:], strict=False)
        }
        while pieces:
            round_: dict[TopicPartition, EncodedRecords] = {}
            for each in list(pieces):
                encoded = next(pieces[each], None)
                if encoded is None:
                    del pieces[each]
                else:
                    round_[each] = encoded
            if round_:
                self._sender.send(round_, self._clock.now_ms())

    def _partitions(
        self, topic: str, rows: Rows, named: pa.Int32Array | None, count: int
    ) -> NDArray[np.int64]:
        """Return the partition of each row. The column `partition` has precedence over the key."""
        keyless = self._keyless % count
        if rows.key is None:
            chosen = np.full(len(rows.value), keyless)
        else:
            chosen = partitions_of_keys(rows.key, count, keyless)
        if named is None:
            return chosen
        wanted = pc.fill_null(named, -1).to_numpy(zero_copy_only=False)
        given = ~named.is_null().to_numpy(zero_copy_only=False)
        wrong = wanted[given & ((wanted < 0) | (wanted >= count))]
        if wrong.size:
            raise ValueError(f"topic {topic} has partitions 0 to {count - 1}, not {wrong[0]}")
        return np.where(given, wanted, chosen)


def _column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    column = table.column(name)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _binary(column: pa.Array) -> pa.BinaryArray:
    """Convert strings to their UTF-8 bytes, without a copy."""
    return column.cast(pa.binary())


def _portions(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield (start, rows) of slices of about `CHUNK_BYTES`, so that no Arrow offset overflows."""
    step = max(1, CHUNK_BYTES * batch.num_rows // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, step):
        yield start, min(step, batch.num_rows - start)


class BatchWriter(DataSourceArrowWriter):
    """Appends the rows of a query to topics."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task."""
        with connect(self._options.connection) as cluster:
            return Written(TopicWriter(cluster, self._options).write(iterator))


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of each micro-batch to topics."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Wait until a broker can be reached, and write the rows of one task of a micro-batch."""
        connection = self._options.connection
        with connect(connection) as cluster:
            patiently(lambda: cluster.refresh([]), connection.request_timeout_ms)
            return Written(TopicWriter(cluster, self._options).write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing, because the rows that tasks wrote are already in the topics."""
