"""The data source `odradek`, for Spark's Python Data Source API (PySpark 4.2 and newer)."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from odradek.spark import typed
from odradek.spark.options import Layout, layout, read_options, write_options
from odradek.spark.readers import BatchReader, FilteringBatchReader, StreamReader
from odradek.spark.reporting import explained
from odradek.spark.typed import RowDecoder
from odradek.spark.write_schema import check_schema
from odradek.spark.writers import BatchWriter, StreamWriter


class OdradekDataSource(DataSource):
    """`spark.read`, `readStream`, `write` and `writeStream` with `format("odradek")`."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(…)`."""
        return "odradek"

    def schema(self) -> StructType | str:
        """Return the schema: that of Spark's Kafka source, or with typed values."""
        with explained():
            return typed.schema(layout(self.options))

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a batch query."""
        options = read_options(self.options, streaming=False)
        return BatchReader(options, self._decoder(schema, options.layout))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802  (Spark's name)
        """Return the reader of a streaming query."""
        options = read_options(self.options, streaming=True)
        return StreamReader(options, self._decoder(schema, options.layout))

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

    @staticmethod
    def _decoder(schema: StructType, wanted: Layout) -> RowDecoder | None:
        if schema.fieldNames() != typed.field_names(wanted):
            raise ValueError(
                "this source has a fixed schema: omit .schema(…). The option valueSchema has the "
                "schema of typed values"
            )
        with explained():
            return typed.decoder(wanted, schema)


class FilteringDataSource(OdradekDataSource):
    """The same source with filter pushdown, for sessions in which it is enabled."""

    def reader(self, schema: StructType) -> FilteringBatchReader:
        """Return the reader of a batch query."""
        options = read_options(self.options, streaming=False)
        return FilteringBatchReader(options, self._decoder(schema, options.layout))
