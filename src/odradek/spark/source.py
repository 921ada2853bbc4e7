"""The data source `odradek`, for Spark's Python Data Source API (PySpark 4.2 and newer).

Spark calls it in several processes, and starts a new process for each streaming query. So each
method imports what not all of the processes need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from odradek.spark import garbage, read_schema
from odradek.spark.options import Layout, layout, read_options, write_options
from odradek.spark.readers import BatchReader, FilteringBatchReader, StreamReader
from odradek.spark.reporting import explained

if TYPE_CHECKING:
    from odradek.spark.typed import RowDecoder
    from odradek.spark.writers import BatchWriter, StreamWriter


class OdradekDataSource(DataSource):
    """`spark.read`, `readStream`, `write` and `writeStream` with `format("odradek")`."""

    @classmethod
    def name(cls) -> str:
        """The name in `format(…)`."""
        return "odradek"

    def schema(self) -> StructType | str:
        """Return the schema: that of Spark's Kafka source, or with typed values."""
        garbage.leave_out_modules()
        with explained():
            wanted = layout(self.options)
            if not wanted.typed:
                return StructType(read_schema.fields(wanted))
            from odradek.spark import typed

            return typed.schema(wanted)

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
        from odradek.spark.write_schema import check_schema
        from odradek.spark.writers import BatchWriter

        garbage.leave_out_modules()
        if overwrite:
            raise ValueError('a topic can only be appended to: use mode("append")')
        options = write_options(self.options)
        check_schema(schema, options)
        return BatchWriter(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Return the writer of a streaming query. It appends every micro-batch."""
        from odradek.spark.write_schema import check_schema
        from odradek.spark.writers import StreamWriter

        options = write_options(self.options)
        check_schema(schema, options)
        return StreamWriter(options, schema)

    @staticmethod
    def _decoder(schema: StructType, wanted: Layout) -> RowDecoder | None:
        if schema.fieldNames() != [field.name for field in read_schema.fields(wanted)]:
            raise ValueError(
                "this source has a fixed schema: omit .schema(…). The option valueSchema has the "
                "schema of typed values"
            )
        if not wanted.typed:
            return None
        from odradek.spark import typed

        with explained():
            return typed.decoder(wanted, schema)


class FilteringDataSource(OdradekDataSource):
    """The same source with filter pushdown, for sessions in which it is enabled."""

    def reader(self, schema: StructType) -> FilteringBatchReader:
        """Return the reader of a batch query."""
        options = read_options(self.options, streaming=False)
        return FilteringBatchReader(options, self._decoder(schema, options.layout))
