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
"""Artifacts that work with PySpark 4.3, although the versions differ. The token provider is needed
only because the connector loads its classes. It is not published for all versions."""


def connector_jars() -> list[Path]:
    """Return the jars of `ARTIFACTS`.

    Raises:
        Missing: Maven is not installed, or cannot fetch the jars.
    """
    return jars("spark-kafka", ARTIFACTS, alone=True)
