"""Reads and writes Kafka topics in Spark. It needs only packages from PyPI.

`session()` starts a local Spark with `format("odradek")`. `register(spark)` adds the format to an
existing session. The format has the options and the schema of Spark's own Kafka connector, and uses
`odradek.client`. `docs/spark.md` has examples.

Spark calls the modules of a read in this order: `source`, `options`, `readers`, `resolution`
(partitions and offsets), `planning` (splits), `fetching`, `batches` (headers, checksums),
`positions` (numpy), `columns` (Arrow). The modules of a write are `source`, `options`, `writers`,
`partitioning`, `encoding` and `producing`. `java`, `class_archive` and `launch` start Spark.
"""

from odradek.spark.launch import register, session

__all__ = ["register", "session"]
