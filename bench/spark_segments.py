"""`python -m bench.spark_segments`: reads from segment files, through the broker, and by Spark's connector.

All read the same topic with two partitions: in a batch query, in a batch query that sums the sizes
of the values, and in a stream with the trigger AvailableNow. The broker is an Odradek node, or
Apache Kafka with `--broker apache`. `spark_cost` describes the results; the processor time includes
the broker. The limits are those of issue 15: from segments, at least 3 times the records per second
of Spark's connector, and at most half of its processor time.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial

from compat.lab.apache_kafka import ApacheKafka
from compat.lab.odradek_node import OdradekNode
from compat.lab.spark_connector import connector_jars
from pyspark.sql import DataFrame, SparkSession

from bench.spark_cost import Job, measure
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.spark import session

TOPIC = "source"
SIZES = {
    "100": "repeat('x', 100)",
    "1000": "repeat('x', 1000)",
    "varied": "repeat('x', int(40 + pmod(hash(id), 121)))",
}
"""SQL expressions of the values. `varied` has 40 to 160 bytes."""


def fill(spark: SparkSession, servers: str, records: int, size: str, codec: str) -> None:
    """Write the records."""
    rows = spark.range(records).selectExpr("string(id) as key", f"{SIZES[size]} as value")
    writer = rows.write.format("odradek").mode("append").option("topic", TOPIC)
    writer.options(**{"bootstrap.servers": servers, "compression.type": codec}).save()


def jobs(spark: SparkSession, servers: str, log_directory: str) -> dict[str, dict[str, Job]]:
    """Return the measured jobs by kind of query and by reader."""
    common = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}
    readers = {
        "segments": ("odradek", common | {"readFrom": "segments", "logDirs": log_directory}),
        "broker": ("odradek", common),
        "Spark's connector": ("kafka", common),
    }

    def load(reader: str) -> DataFrame:
        name, options = readers[reader]
        return spark.read.format(name).options(**options).load()

    def read(reader: str) -> None:
        load(reader).write.format("noop").mode("overwrite").save()

    def add(reader: str) -> None:
        load(reader).selectExpr("sum(length(value))").collect()

    def stream(reader: str) -> None:
        name, options = readers[reader]
        source = spark.readStream.format(name).options(**options, startingOffsets="earliest")
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = source.load().writeStream.format("noop").trigger(availableNow=True)
            writer.option("checkpointLocation", checkpoint).start().awaitTermination()

    return {
        title: {reader: partial(job, reader) for reader in readers}
        for title, job in (("read", read), ("read and sum", add), ("stream", stream))
    }


def main() -> None:
    """Measure all jobs, and print a line for each job."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_segments")
    parser.add_argument("--broker", choices=["odradek", "apache"], default="odradek")
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--size", choices=SIZES, default="100")
    parser.add_argument("--codec", choices=["none", "lz4", "zstd"], default="none")
    given = parser.parse_args()
    kind = OdradekNode if given.broker == "odradek" else ApacheKafka
    conf = {"spark.jars": ",".join(map(str, connector_jars()))}
    spark = session("bench", conf=conf, quick_start=False)
    with kind() as broker, Cluster(broker.bootstrap) as cluster:
        create_topics(cluster, [NewTopic(TOPIC, 2, 1)])
        fill(spark, broker.bootstrap, given.records, given.size, given.codec)
        (properties,) = broker.directory.rglob("meta.properties")
        print(f"{given.records} records, {given.size} bytes, {given.codec}, {broker.name}:")
        for title, by_reader in jobs(spark, broker.bootstrap, str(properties.parent)).items():
            costs = measure(by_reader, given.records, broker, with_broker=True)
            other = costs["Spark's connector"]
            for reader, cost in costs.items():
                rate = cost.records_per_second / other.records_per_second
                cpu = cost.cpu_seconds_per_record / other.cpu_seconds_per_record
                print(f"  {title:<13} {reader:<18} {cost}   {rate:.2f}x, {cpu:.2f}x CPU")
    spark.stop()


if __name__ == "__main__":
    main()
