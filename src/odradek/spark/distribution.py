"""Prepares a frame so that its tasks can write it in one transaction.

In a transaction, brokers check the sequence numbers of the producer in each partition. If all tasks
run on one machine, they share the numbers (`sharing`), and the rows stay where they are. On a
cluster each partition has one task. A data source in Python cannot require this from Spark. So
`by_partition` lets tasks encode rows as the records of batches (`topic_writer`), each for one
partition, and moves the batches to the task of the partition (`exchange`). Spark moves batches of
many records, not rows, and no task waits for a function that computes partitions.

The frame is marked (`write_schema`), so that the writer knows what tasks may do (`transactional`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from odradek.spark.options import write_options
from odradek.spark.resolution import connect
from odradek.spark.topic_writer import encoded_rows
from odradek.spark.typed import encoders
from odradek.spark.write_schema import (
    COLUMN_TYPES,
    ENCODED_SCHEMA,
    PARTITION,
    SHARED_MARK,
    EncodedFor,
    check_schema,
)


def by_partition(frame: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Return the rows, prepared for an exactly-once write by the tasks.

    The result can only be written as it is, in the same session. `options` are the options of the
    writer, with `topic`. On a cluster the rows are encoded, and the number of partitions is that of
    the topic at the time of the call. The topic is created if brokers do that.

    Raises:
        ValueError: the options are incomplete, a column is missing or of the wrong type, or the
            session may repeat tasks in a way that an exactly-once write cannot detect.
        ClientError: no broker responds, or the topic does not exist.
    """
    parsed = write_options(options)
    if parsed.topic is None:
        raise ValueError("by_partition needs the option 'topic'")
    _check_session(frame)
    with connect(parsed.connection) as cluster:
        count = len(cluster.topic(parsed.topic, create=True).partitions)
    check_schema(frame.schema, parsed)
    used = [name for name in COLUMN_TYPES if name in frame.columns and name != "topic"]

    rows = frame.select(*used)
    if is_local(frame.sparkSession.sparkContext.getConf().get("spark.master", "")):
        return rows.withMetadata("value", {SHARED_MARK: parsed.topic})
    of_columns = encoders(parsed, frame.schema)

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return encoded_rows(parsed, count, batches, of_columns)

    encoded = rows.mapInArrow(encode, ENCODED_SCHEMA)
    mark = EncodedFor(parsed.topic, parsed.codec).mark
    return encoded.repartitionById(count, PARTITION).withMetadata(PARTITION, mark)


def _check_session(frame: DataFrame) -> None:
    conf = frame.sparkSession.sparkContext.getConf()
    if conf.get("spark.speculation", "false") == "true":
        raise ValueError(
            "exactly-once writes of tasks need spark.speculation=false: a copy of a task fails "
            "the write"
        )
    if (
        not is_local(conf.get("spark.master", ""))
        and conf.get("spark.stage.maxConsecutiveAttempts") != "1"
    ):
        raise ValueError(
            "exactly-once writes of tasks need spark.stage.maxConsecutiveAttempts=1: the tasks of "
            "a repeated stage cannot know what earlier tasks have written"
        )


def is_local(master: str) -> bool:
    """Return whether a master runs all tasks in the driver's process, where none is repeated."""
    return master == "local" or master.startswith("local[")
