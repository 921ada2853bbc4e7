"""The jars of Spark's own Kafka connector, fetched by Maven into the cache."""

from __future__ import annotations

from pathlib import Path

from compat.lab.maven import jars

ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""A set that works with PySpark 4.3, although the versions differ: the token provider is only
needed for its classes, and is not published for all versions."""


def connector_jars() -> list[Path]:
    """The four jars.

    Raises:
        Missing: Maven is not here, or cannot fetch them.
    """
    return jars("spark-kafka", ARTIFACTS, alone=True)
