"""The columns of frames that are written, and the mark of frames from `distribution.by_partition`.

The mark is the metadata of a column, which Spark keeps in the schema. It tells the writer that
tasks may write the rows in a transaction: because the rows are encoded and each partition has one
task (the mark of the column `partition`), or because all tasks run on one machine and share the
sequence numbers (the mark of the column `value`; see `sharing`).
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from odradek.records.compression import Codec
from odradek.spark.options import WriteOptions
from odradek.spark.read_schema import HEADERS_TYPE
from odradek.spark.typed import check_column

COLUMN_TYPES: dict[str, tuple[DataType, ...]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "headers": (HEADERS_TYPE,),
}
"""The columns that are used, as in Spark's own Kafka sink. Other columns are ignored."""

PARTITION, RECORD_COUNT, RECORDS = "partition", "record_count", "records"
ENCODED_TYPES = {
    PARTITION: "INT",
    RECORD_COUNT: "INT",
    RECORDS: "BINARY",
}
"""The columns of an encoded frame. Each row has the encoded records of one batch."""
ENCODED_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in ENCODED_TYPES.items())
TOPIC_MARK, CODEC_MARK = "odradek.topic", "odradek.codec"
"""The keys in the metadata of the column `partition` of an encoded frame."""
SHARED_MARK = "odradek.shared"
"""The key in the metadata of the column `value` of a frame whose tasks share sequence numbers. The
value is the topic."""


class EncodedFor(NamedTuple):
    """The topic for which the rows of a frame are encoded, and the codec of their batches."""

    topic: str
    codec: Codec

    @property
    def mark(self) -> dict[str, str]:
        """The metadata of the column `partition`."""
        return {TOPIC_MARK: self.topic, CODEC_MARK: self.codec.name.lower()}


def encoded_for(schema: StructType) -> EncodedFor | None:
    """Return for what `by_partition` has encoded a frame; None for other frames."""
    for field in schema.fields:
        if field.name == PARTITION and TOPIC_MARK in (field.metadata or {}):
            codec = Codec[field.metadata[CODEC_MARK].upper()]
            return EncodedFor(field.metadata[TOPIC_MARK], codec)
    return None


def shared_for(schema: StructType) -> str | None:
    """Return the topic for which `by_partition` lets tasks share sequence numbers, or None."""
    for field in schema.fields:
        if field.name == "value" and SHARED_MARK in (field.metadata or {}):
            topic: str = field.metadata[SHARED_MARK]
            return topic
    return None


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Check the columns before any row is written.

    Raises:
        ValueError: a column is missing or of the wrong type, or the frame is encoded for other
            options.
    """
    encoded = encoded_for(schema)
    if encoded is not None:
        _check_encoded(schema, encoded, options)
        return
    shared = shared_for(schema)
    if shared is not None:
        _check_topic(shared, options)
    columns = {field.name: field.dataType for field in schema.fields}
    if "value" not in columns:
        raise ValueError(f"a column 'value' is needed; there are {', '.join(columns) or 'none'}")
    if "topic" not in columns and options.topic is None:
        raise ValueError("no topic: give the option 'topic', or a column 'topic'")
    typed = {each.column: each for each in (options.key, options.value) if each is not None}
    for name, allowed in COLUMN_TYPES.items():
        if name in typed and name in columns:
            check_column(typed[name], columns[name])
        elif name in columns and not any(_same(columns[name], each) for each in allowed):
            names = " or ".join(each.simpleString() for each in allowed)
            raise ValueError(
                f"column '{name}' must be of type {names}; it is {columns[name].simpleString()}"
            )


def _check_encoded(schema: StructType, encoded: EncodedFor, options: WriteOptions) -> None:
    missing = ENCODED_TYPES.keys() - set(schema.fieldNames())
    if missing:
        raise ValueError(
            f"the frame of by_partition lacks {', '.join(sorted(missing))}: write it as it is"
        )
    _check_topic(encoded.topic, options)
    if encoded.codec != options.codec:
        raise ValueError(
            f"the frame is encoded with kafka.compression.type={encoded.codec.name.lower()}, but "
            f"written with {options.codec.name.lower()}: give by_partition the same options"
        )


def _check_topic(topic: str, options: WriteOptions) -> None:
    if topic != options.topic:
        raise ValueError(
            f"the frame is partitioned for the topic {topic}, but written to {options.topic}"
        )


def _same(one: DataType, other: DataType) -> bool:
    """Return whether two types are equal except for nullability."""
    return one.simpleString() == other.simpleString()
