"""Reads and writes Kafka topics in Spark. Only packages from PyPI are needed.

`session()` starts a local Spark with `format("odradek")`. `register(spark)` adds the format to an
existing session. The format has the options and the schema of Spark's own Kafka connector, and uses
`odradek.client`. `docs/spark.md` has examples.

Spark calls `source`, `readers` and `writers`. A read uses these modules, in this order: `options`
(with `given`), `read_schema`, `resolution` (partitions and offsets), `planning` (splits),
`fetching`, `batches` (headers, checksums) and `columns` (Arrow), which uses `positions` (numpy).
`typed` decodes and encodes keys and values with `json_decoding`, `json_encoding` and `values`
(Avro, schema registries), and `dead_letters` writes records that cannot be decoded to another
topic. A write uses `options`, `write_schema`, `partitioning`, `topic_writer`, `encoding` and
`producing`. Exactly-once writes also use `transactional`, `markers`, `distribution`, and `sharing` (on
one machine) or `exchange` (on a cluster). `segment_reading` reads segment files, with `segments` and
`replicas`. `offsets` parses and formats offsets. `java`, `class_archive`, `spark_home` and `launch`
start Spark. `query_metrics` exports the progress of queries (`query_progress`) to Prometheus.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.spark.distribution import by_partition
    from odradek.spark.launch import register, session
    from odradek.spark.query_metrics import export_metrics
else:
    MODULES = {
        "by_partition": "distribution",
        "export_metrics": "query_metrics",
        "register": "launch",
        "session": "launch",
    }

    def __getattr__(name: str) -> object:
        """Import a function when it is used, because the processes that Spark starts use none."""
        if name not in MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{MODULES[name]}"), name)
        globals()[name] = value
        return value


__all__ = ["by_partition", "export_metrics", "register", "session"]
