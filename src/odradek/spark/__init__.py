"""Kafka topics in Spark, with nothing but packages from PyPI.

`session()` starts a local Spark that knows `format("odradek")`; `register(spark)` teaches a
session that is there already. The source reads and writes as Spark's own Kafka connector does,
with its options and schema, over `odradek.client`: `docs/spark.md` has examples.

The way of a read: `source` → `options` → `readers` (driven by Spark) → `resolution` (what do the
options mean in this cluster) → `planning` (splits) → `fetching` → `batches` (headers, checksums)
→ `positions` (numpy) → `columns` (Arrow). The way of a write: `writers` → `partitioning` →
`encoding` → `producing`. `java` and `launch` start Spark.
"""

from odradek.spark.launch import register, session

__all__ = ["register", "session"]
