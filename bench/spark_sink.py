"""`python -m bench.spark_sink`: compares the costs of exactly-once and at-least-once writes.

Each job writes records of 100 bytes to a topic with two partitions, in a batch query. There are
four jobs: at least once, exactly once through the driver, exactly once by the tasks
(`by_partition`), and Spark's own connector, which writes at least once (here with larger batches
than its defaults). `spark_cost` describes the results.
"""

from __future__ import annotations

import argparse

from compat.lab.odradek_node import OdradekNode
from compat.lab.spark_connector import connector_jars
from pyspark.sql import DataFrame

from bench.spark_cost import Job, measure
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.spark import by_partition, session

TUNED = {"kafka.linger.ms": "20", "kafka.batch.size": "262144"}


def jobs(rows: DataFrame, servers: str) -> dict[str, Job]:
    """Return the measured jobs."""
    common = {"kafka.bootstrap.servers": servers}

    def write(frame: DataFrame, source: str, topic: str, **options: str) -> None:
        writer = frame.write.format(source).mode("append").options(**common, **options)
        writer.option("topic", topic).save()

    def by_tasks() -> None:
        options = {**common, "topic": "tasks"}
        write(by_partition(rows, options), "odradek", "tasks", deliveryGuarantee="exactly-once")

    return {
        "at least once": lambda: write(rows, "odradek", "least"),
        "exactly once, driver": lambda: write(
            rows, "odradek", "driver", deliveryGuarantee="exactly-once"
        ),
        "exactly once, tasks": by_tasks,
        "Spark's connector": lambda: write(rows, "kafka", "connector", **TUNED),
    }


def main() -> None:
    """Measure all jobs, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_sink")
    parser.add_argument("--records", type=int, default=1_000_000)
    count = parser.parse_args().records
    topics = ("least", "driver", "tasks", "connector")
    with OdradekNode() as broker, Cluster(broker.bootstrap) as cluster:
        conf = {"spark.jars": ",".join(map(str, connector_jars()))}
        spark = session("bench", conf=conf, quick_start=False)
        create_topics(cluster, [NewTopic(name, 2, 1) for name in topics])
        rows = spark.range(count).selectExpr("string(id) AS key", "repeat('x', 100) AS value")
        for name, cost in measure(jobs(rows, broker.bootstrap), count, broker).items():
            print(f"{name:<22} {cost}")
        spark.stop()


if __name__ == "__main__":
    main()
