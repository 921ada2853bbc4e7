"""Spark looks for data sources in packages named `pyspark_*`: here it finds `odradek`.

So `spark.read.format("odradek")` works in any session of a Python where Odradek is installed.
"""

from odradek.spark.source import OdradekDataSource as DefaultSource

__all__ = ["DefaultSource"]
