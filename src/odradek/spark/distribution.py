"""Distributes the rows of a frame so that each partition of a topic belongs to one task.

A data source in Python cannot require a distribution from Spark. `by_partition` computes the
partition of each row and moves the rows. It marks the column `partition` of the result, so that the
writer knows that tasks may write in a transaction (`transactional`). The mark is the metadata of
the column, which Spark keeps in the schema.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

from odradek.spark.options import write_options
from odradek.spark.partitioning import partitions_of_keys
from odradek.spark.resolution import connect

MARK = "odradek.topic"
"""The key in the metadata of the column `partition`. The value is the topic."""


def by_partition(frame: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Return the rows with the column `partition`, distributed by it for an exactly-once write.

    `options` are the options of the writer, with `topic`. The number of partitions is that of the
    topic at the time of the call. The topic is created if brokers do that.

    Raises:
        ValueError: the options are incomplete, or the session may repeat tasks in a way that an
            exactly-once write cannot detect.
        ClientError: no broker responds, or the topic does not exist.
    """
    parsed = write_options(options)
    if parsed.topic is None:
        raise ValueError("by_partition needs the option 'topic'")
    _check_session(frame)
    with connect(parsed.connection) as cluster:
        count = len(cluster.topic(parsed.topic, create=True).partitions)

    @arrow_udf("int")  # type: ignore[call-overload, untyped-decorator]
    def partition_of(keys: pa.Array) -> pa.Array:
        return pa.array(_partitions(keys, count), pa.int32())

    key = sf.col("key").cast("binary") if "key" in frame.columns else sf.lit(None).cast("binary")
    chosen = partition_of(key)
    if "partition" in frame.columns:
        chosen = sf.coalesce("partition", chosen)
    placed = frame.withColumn("partition", chosen).repartitionById(count, "partition")
    return placed.withMetadata("partition", {MARK: parsed.topic})


def _partitions(keys: pa.BinaryArray, count: int) -> np.ndarray:
    """Return the partition of each key. Rows without a key take turns."""
    chosen = partitions_of_keys(keys, count, 0)
    missing = keys.is_null().to_numpy(zero_copy_only=False)
    chosen[missing] = np.arange(np.count_nonzero(missing)) % count
    return chosen


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


def partitioned_for(schema: StructType) -> str | None:
    """Return the topic for which `by_partition` has distributed a frame; None for other frames."""
    for field in schema.fields:
        if field.name == "partition":
            topic: str | None = (field.metadata or {}).get(MARK)
            return topic
    return None
