"""The table of actions: a Delta table, which the library `deltalake` writes.

Each micro-batch becomes one version of the table. The version also names the query and has the number
of the micro-batch (an application transaction of Delta). If a micro-batch is repeated after a failure,
its number is already there, and nothing is written. So each action is in the table once.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession

QUERY = "activity.table"
PARTITIONED_BY = "month"


def append(path: str, batch: DataFrame, batch_id: int) -> None:
    """Add the rows of a micro-batch to the table, unless they are there. The driver writes them."""
    if DeltaTable.is_deltatable(path):
        last = DeltaTable(path).transaction_version(QUERY)
        if last is not None and last >= batch_id:
            return
    write_deltalake(
        path,
        _in_utc(batch.toArrow()),
        mode="append",
        partition_by=[PARTITIONED_BY],
        commit_properties=CommitProperties(app_transactions=[Transaction(QUERY, batch_id)]),
    )


def read(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of the latest version. Spark reads the Parquet files that Delta lists."""
    files = DeltaTable(path).file_uris()
    return spark.read.option("basePath", path).parquet(*files)


def _in_utc(rows: pa.Table) -> pa.Table:
    """Return rows whose times have the time zone UTC, as Delta needs them."""
    fields = [
        pa.field(each.name, pa.timestamp("us", "UTC")) if pa.types.is_timestamp(each.type) else each
        for each in rows.schema
    ]
    return rows.cast(pa.schema(fields))
