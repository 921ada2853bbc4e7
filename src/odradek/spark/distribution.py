"""Encodes the rows of a frame, and gives all batches of a partition to one task.

A data source in Python cannot require a distribution from Spark. `by_partition` lets tasks encode
rows as the records of batches (`topic_writer`), each for one partition, and moves the batches to the
task of the partition (`exchange`). So Spark moves batches of many records, not rows, and no task
waits for a function that computes partitions. The frame is marked (`write_schema`), so that the
writer knows that tasks may write it in a transaction (`transactional`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from odradek.spark import exchange
from odradek.spark.options import write_options
from odradek.spark.resolution import connect
from odradek.spark.topic_writer import encoded_rows
from odradek.spark.typed import encoders
from odradek.spark.write_schema import (
    COLUMN_TYPES,
    ENCODED_SCHEMA,
    PARTITION,
    EncodedFor,
    check_schema,
)


def by_partition(frame: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Return the rows, encoded and distributed by partition, for an exactly-once write.

    The result can only be written, and only once. `options` are the options of the writer, with `topic`. The number
    of partitions is that of the topic at the time of the call. The topic is created if brokers do
    that.

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
    of_columns = encoders(parsed, frame.schema)
    used = [name for name in COLUMN_TYPES if name in frame.columns and name != "topic"]

    in_files = is_local(frame.sparkSession.sparkContext.getConf().get("spark.master", ""))

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = exchange.local_directory() if in_files else None
        return encoded_rows(parsed, count, batches, directory, of_columns)

    encoded = frame.select(*used).mapInArrow(encode, ENCODED_SCHEMA)
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
