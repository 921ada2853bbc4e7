"""Encodes rows of a task in batches of partitions, and writes them.

`TopicWriter` does both in one task. For frames of `distribution.by_partition` on a cluster, one task
encodes rows (`encoded_rows`), and another one writes the batches (`write_encoded`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from odradek.arrow.encoding import EncodedRecords, Rows, encode_records
from odradek.client.cluster import Cluster
from odradek.env.clock import SystemClock
from odradek.model.topic_partition import TopicPartition
from odradek.spark import exchange
from odradek.spark.options import WriteOptions
from odradek.spark.partitioning import partitions_of_keys
from odradek.spark.typed import Encoders
from odradek.spark.write_schema import EncodedFor

CHUNK_BYTES = 8 << 20
"""Larger Arrow batches are encoded in parts of about this size in bytes."""
CHUNK_BYTES_MIN = CHUNK_BYTES // 2
"""Smaller Arrow batches are joined. This copies them, but needs fewer calls."""

SORTED_FAST_MAX = 1 << 16
"""numpy sorts numbers of 16 bits by radix, in a tenth of the time."""

NO_ENCODERS: Encoders = {}
Pieces = Mapping[TopicPartition, Iterator[EncodedRecords]]
"""Encoded records by partition, in order."""


class Destination(Protocol):
    """Takes encoded batches: `Sender`, `SharedSender` or `ForDriver`."""

    def send(self, records: dict[TopicPartition, EncodedRecords], timestamp_ms: int) -> None:
        """Take one batch for each partition."""
        ...

    def flush(self) -> None:
        """Wait until all batches are written."""
        ...


def in_rounds(
    batches: Mapping[TopicPartition, Iterator[EncodedRecords]],
) -> Iterator[dict[TopicPartition, EncodedRecords]]:
    """Yield rounds of batches with at most one batch for each partition, as `send` needs them."""
    left = dict(batches)
    while left:
        following = {each: next(left[each], None) for each in left}
        round_ = {each: batch for each, batch in following.items() if batch is not None}
        left = {each: left[each] for each in round_}
        if round_:
            yield round_


class RowEncoder:
    """Collects Arrow batches, and encodes their rows as records of partitions."""

    def __init__(
        self,
        options: WriteOptions,
        partition_count: Callable[[str], int],
        encoders: Encoders = NO_ENCODERS,
    ) -> None:
        self.row_count = 0
        """The number of rows that were encoded."""
        self._options = options
        self._encoders = encoders
        self._partition_count = partition_count
        self._keyless = random.randrange(1 << 16)  # noqa: S311  (spreads load)

    def encoded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Pieces]:
        """Yield the records of rows, about `CHUNK_BYTES` at a time, by partition.

        Raises:
            ValueError: a row has no topic, or a partition that does not exist.
        """
        for table in _chunks(batches):
            for topic, rows, partition in self._by_topic(table):
                yield self._pieces(topic, rows, partition)
            self._keyless += 1
            self.row_count += table.num_rows

    def _by_topic(self, table: pa.Table) -> Iterator[tuple[str, Rows, pa.Int32Array | None]]:
        """Yield the rows of each topic. The option `topic` overrides the column, as in Spark."""
        rows = Rows(
            value=self._bytes(table, "value"),
            key=None if "key" not in table.column_names else self._bytes(table, "key"),
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

    def _bytes(self, table: pa.Table, name: str) -> pa.BinaryArray:
        """Return the byte strings of a column. Those of typed columns are encoded."""
        column = _column(table, name)
        if name in self._encoders:
            column = self._encoders[name].encode(column)
        return _binary(column)

    def _pieces(self, topic: str, rows: Rows, named: pa.Int32Array | None) -> Pieces:
        count = self._partition_count(topic)
        chosen = self._partitions(topic, rows, named, count)
        ordered = rows
        if (chosen[1:] < chosen[:-1]).any():
            small = chosen.astype(np.uint16) if count <= SORTED_FAST_MAX else chosen
            order = np.argsort(small, kind="stable")
            ordered, chosen = rows.take(order), chosen[order]
        present, first = np.unique(chosen, return_index=True)
        bounds = [*first.tolist(), len(chosen)]
        return {
            TopicPartition(topic, partition): encode_records(
                ordered.slice(start, stop), self._options.batch_size
            )
            for partition, start, stop in zip(present.tolist(), bounds, bounds[1:], strict=False)
        }

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


class TopicWriter:
    """Writes the rows of Arrow batches to partitions."""

    def __init__(
        self,
        cluster: Cluster,
        options: WriteOptions,
        destination: Destination,
        encoders: Encoders = NO_ENCODERS,
    ) -> None:
        self._destination = destination
        self._clock = SystemClock()
        self._encoder = RowEncoder(
            options, lambda topic: len(cluster.topic(topic, create=True).partitions), encoders
        )

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write all rows, wait until all are acknowledged, and count them.

        Raises:
            ValueError: a row has no topic, or a partition that does not exist.
            ClientError: a broker rejects a batch or does not respond.
        """
        for pieces in self._encoder.encoded(batches):
            for round_ in in_rounds(pieces):
                self._destination.send(round_, self._clock.now_ms())
        self._destination.flush()
        return self._encoder.row_count


def encoded_rows(
    options: WriteOptions,
    partition_count: int,
    batches: Iterable[pa.RecordBatch],
    encoders: Encoders = NO_ENCODERS,
) -> Iterator[pa.RecordBatch]:
    """Encode rows, and yield rows of `write_schema.ENCODED_SCHEMA`.

    Raises:
        ValueError: a row has a partition that does not exist.
    """
    encoder = RowEncoder(options, lambda topic: partition_count, encoders)
    for pieces in encoder.encoded(batches):
        yield exchange.to_rows(
            [
                (each.partition, records.compressed(options.codec))
                for each, several in pieces.items()
                for records in several
            ]
        )


def write_encoded(
    destination: Destination, encoded_for: EncodedFor, batches: Iterable[pa.RecordBatch]
) -> int:
    """Write rows that `encoded_rows` has returned. Count the rows that they encode.

    Raises:
        ClientError: a broker rejects a batch or does not respond.
    """
    clock = SystemClock()
    count = 0
    for batch in batches:
        for partition, records in exchange.from_rows(batch, encoded_for.codec):
            round_ = {TopicPartition(encoded_for.topic, partition): records}
            destination.send(round_, clock.now_ms())
            count += records.record_count
    destination.flush()
    return count


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of about `CHUNK_BYTES`, each in one piece."""
    gathered: list[pa.RecordBatch] = []
    gathered_bytes = 0
    for batch in batches:
        for start, size in _portions(batch):
            gathered.append(batch.slice(start, size))
            gathered_bytes += batch.nbytes * size // max(1, batch.num_rows)
            if gathered_bytes >= CHUNK_BYTES_MIN:
                yield pa.Table.from_batches(gathered).combine_chunks()
                gathered, gathered_bytes = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered).combine_chunks()


def _column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    column = table.column(name)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _binary(column: pa.Array) -> pa.BinaryArray:
    """Convert strings to their UTF-8 bytes, without a copy."""
    return column.cast(pa.binary())


def _portions(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield (start, rows) of slices of about `CHUNK_BYTES`, so that no Arrow offset overflows."""
    rows = batch.num_rows
    parts = min(rows, max(1, round(batch.nbytes / CHUNK_BYTES)))
    bounds = [rows * part // parts for part in range(parts + 1)] if rows else []
    for start, stop in pairwise(bounds):
        yield start, stop - start
