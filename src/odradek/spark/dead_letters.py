"""Writes records whose key or value cannot be decoded to another topic (the option `badRecordsTopic`).

A task that reads such a record writes it with its key, value and headers. More headers say why it
cannot be decoded, and where it is, as those of Kafka Connect (KIP-298) and Kafka Streams (KIP-1034)
do. The records are written before the other rows of their batch are returned. If Spark reads records
again, because a task or a micro-batch is repeated or for another action, they are written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import pyarrow as pa

from odradek.arrow.columns import ARROW_HEADERS
from odradek.client.cluster import Cluster
from odradek.spark.options import ReadOptions, WriteOptions
from odradek.spark.producing import Sender
from odradek.spark.resolution import connect
from odradek.spark.topic_writer import TopicWriter
from odradek.spark.typed import RowDecoder, Undecoded

PREFIX = "__odradek.errors."
"""The beginning of the names of the headers that are added."""
PLACE = ("topic", "partition", "offset")


def decoded(
    batches: Iterable[pa.RecordBatch], decoder: RowDecoder, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield batches without the rows that cannot be decoded, and write those to the other topic.

    The batches have headers. They are removed if the options do not ask for them.

    Raises:
        ClientError: a record cannot be written.
    """
    assert options.bad_records is not None, "the option badRecordsTopic is given"
    with _Writer(options.bad_records) as writer:
        for batch in batches:
            rows, undecoded = decoder.separated(batch)
            if undecoded is not None:
                writer.write(letters(undecoded))
            yield rows if options.layout.headers else rows.drop_columns(["headers"])


def letters(undecoded: Undecoded) -> pa.RecordBatch:
    """Return the records that are written for rows that cannot be decoded."""
    rows = undecoded.rows
    headers = [
        [*(given or []), *_added(reason, place)]
        for given, reason, place in zip(
            rows.column("headers").to_pylist(),
            undecoded.reasons,
            zip(*(rows.column(name).to_pylist() for name in PLACE), strict=True),
            strict=True,
        )
    ]
    return pa.record_batch(
        {
            "key": rows.column("key"),
            "value": rows.column("value"),
            "headers": pa.array(headers, ARROW_HEADERS),
        }
    )


def _added(reason: str, place: tuple[object, ...]) -> Iterator[dict[str, object]]:
    yield {"key": f"{PREFIX}message", "value": reason.strip().encode()}
    for name, value in zip(PLACE, place, strict=True):
        yield {"key": f"{PREFIX}{name}", "value": str(value).encode()}


class _Writer:
    """Writes to the other topic. It connects when there is something to write."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._cluster: Cluster | None = None
        self._writer: TopicWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._cluster is not None:
            self._cluster.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write records, and wait until they are acknowledged."""
        if self._writer is None:
            self._cluster = connect(self._options.connection)
            sender = Sender(self._cluster, self._options)
            self._writer = TopicWriter(self._cluster, self._options, sender)
        self._writer.write([batch])
