"""The data source `odradek`, for Spark's Python Data Source API (PySpark 4.2 and newer)."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from odradek.spark.columns import SCHEMA, SCHEMA_WITH_HEADERS
from odradek.spark.options import includes_headers, read_options, write_options
from odradek.spark.readers import BatchReader, FilteringBatchReader, StreamReader
from odradek.spark.writers import BatchWriter, StreamWriter, check_schema


class OdradekDataSource(DataSource):
    """`spark.read`, `readStream`, `write` and `writeStream` with `format("odradek")`."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(…)`."""
        return "odradek"

    def schema(self) -> StructType:
        """Return the schema, which is the schema of Spark's Kafka source."""
        return SCHEMA_WITH_HEADERS if includes_headers(self.options) else SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a batch query."""
        self._check(schema)
        return BatchReader(read_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802  (Spark's name)
        """Return the reader of a streaming query."""
        self._check(schema)
        return StreamReader(read_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of a batch query, which can only append."""
        if overwrite:
            raise ValueError('a topic can only be appended to: use mode("append")')
        options = write_options(self.options)
        check_schema(schema, options)
        return BatchWriter(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Return the writer of a streaming query. It appends every micro-batch."""
        options = write_options(self.options)
        check_schema(schema, options)
        return StreamWriter(options, schema)

    def _check(self, schema: StructType) -> None:
        if schema.fieldNames() != self.schema().fieldNames():
            raise ValueError("this source has a fixed schema: omit .schema(…)")


class FilteringDataSource(OdradekDataSource):
    """The same source with filter pushdown, for sessions in which it is enabled."""

    def reader(self, schema: StructType) -> FilteringBatchReader:
        """Return the reader of a batch query."""
        self._check(schema)
        return FilteringBatchReader(read_options(self.options, streaming=False))
