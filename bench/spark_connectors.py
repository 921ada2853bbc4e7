"""`python -m bench.spark_connectors`: compares Odradek's data source and Spark's own connector.

Both use the same Spark session and the same broker, with a million records of 100 bytes in two
partitions. The broker is an Odradek node, or Apache Kafka with `--broker apache`. The output has
million records per second, as the median of several warm rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from compat.lab.apache_kafka import ApacheKafka
from compat.lab.odradek_node import OdradekNode
from compat.lab.spark_connector import connector_jars
from pyspark.sql import SparkSession

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.spark import session

RECORDS = 1_000_000
ROUNDS = 5
WARM_UP_ROUNDS = 2
FORMATS = ("odradek", "kafka")

Job = Callable[[str], None]


def jobs(spark: SparkSession, servers: str) -> dict[str, Job]:
    """Return the measured jobs by name. The parameter of a job is the name of the format."""
    rows = spark.range(RECORDS).selectExpr("string(id) as key", "repeat('x', 100) as value")

    def write(format_name: str) -> None:
        writer = rows.write.format(format_name).mode("append")
        writer.option("kafka.bootstrap.servers", servers).option("topic", format_name).save()

    def read(format_name: str) -> None:
        reader = spark.read.format(format_name).option("kafka.bootstrap.servers", servers)
        records = reader.option("subscribe", "source").load()
        records.write.format("noop").mode("overwrite").save()

    def aggregate(format_name: str) -> None:
        reader = spark.read.format(format_name).option("kafka.bootstrap.servers", servers)
        records = reader.option("subscribe", "source").load()
        (total,) = records.selectExpr("sum(length(value))").collect()[0]
        assert total == RECORDS * 100

    return {"write": write, "read": read, "read and sum": aggregate}


def measure(job: Job) -> dict[str, float]:
    """Return the median of records per second by format. The rounds of the formats alternate."""
    seconds: dict[str, list[float]] = {name: [] for name in FORMATS}
    for number in range(WARM_UP_ROUNDS + ROUNDS):
        for name in FORMATS:
            began = time.perf_counter()
            job(name)
            if number >= WARM_UP_ROUNDS:
                seconds[name].append(time.perf_counter() - began)
    return {name: RECORDS / statistics.median(taken) for name, taken in seconds.items()}


def main() -> None:
    """Measure all jobs, and print a line for each job."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_connectors")
    parser.add_argument("--broker", choices=["odradek", "apache"], default="odradek")
    kind = OdradekNode if parser.parse_args().broker == "odradek" else ApacheKafka
    conf = {"spark.jars": ",".join(map(str, connector_jars()))}
    spark = session("bench", conf=conf, quick_start=False)
    with kind() as broker, Cluster(broker.bootstrap) as cluster:
        create_topics(cluster, [NewTopic(name, 2, 1) for name in ("source", *FORMATS)])
        all_jobs = jobs(spark, broker.bootstrap)
        rows = spark.range(RECORDS).selectExpr("string(id) as key", "repeat('x', 100) as value")
        writer = rows.write.format("odradek").mode("append").option("topic", "source")
        writer.option("kafka.bootstrap.servers", broker.bootstrap).save()
        print(f"million records a second, {broker.name}:")
        for title, job in all_jobs.items():
            rates = measure(job)
            ratio = rates["odradek"] / rates["kafka"]
            text = "   ".join(f"{name} {rate / 1e6:.2f}" for name, rate in rates.items())
            print(f"  {title:<14} {text}   ratio {ratio:.2f}")
    spark.stop()


if __name__ == "__main__":
    main()
