"""The columns of a read, except for the types of typed keys and values (`typed`).

The columns are those of Spark's own Kafka source. This module imports nothing that decodes records,
because Spark asks for the columns in processes that only plan.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.spark.options import Layout

HEADERS_TYPE = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
SCHEMA_WITH_HEADERS = StructType([*SCHEMA.fields, StructField("headers", HEADERS_TYPE)])

UNDECODED_NAMES = {"value": "undecoded", "key": "undecodedKey"}
"""The columns with the bytes that cannot be decoded, by column."""


def fields(layout: Layout) -> list[StructField]:
    """Return the columns of a read. Keys and values are bytes, even if they are typed."""
    columns: list[StructField] = (SCHEMA_WITH_HEADERS if layout.headers else SCHEMA).fields
    undecoded = layout.typed if layout.keeps_undecoded else []
    names = [UNDECODED_NAMES[each.column] for each in undecoded]
    return [*columns, *(StructField(name, BinaryType()) for name in names)]
