"""Kafka topics in Spark; needs only packages from PyPI.

`session()` starts a local Spark with `format("odradek")`; `register(spark)` adds the format to an
existing session. The source reads and writes as Spark's own Kafka connector does, with its options
and schema, over `odradek.client`: `docs/spark.md` has examples.

The path of a read: `source` → `options` → `readers` (driven by Spark) → `resolution` (partitions
and offsets of the options) → `planning` (splits) → `fetching` → `batches` (headers, checksums) →
`positions` (numpy) → `columns` (Arrow). The path of a write: `writers` → `partitioning` →
`encoding` → `producing`. `java` and `launch` start Spark.
"""

from odradek.spark.launch import register, session

__all__ = ["register", "session"]
