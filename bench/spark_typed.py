"""`python -m bench.spark_typed`: compares typed values with Spark's `from_json` and `to_json`.

All jobs use `format("odradek")`, the same Spark session and the same broker, with JSON values of
about 100 bytes and five fields in two partitions. `spark_cost` describes the results.
"""

from __future__ import annotations

import argparse

from compat.lab.odradek_node import OdradekNode
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.spark_cost import Job, measure
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.spark import session

SCHEMA = "id BIGINT, name STRING, price DOUBLE, sold BOOLEAN, at TIMESTAMP"
ROW = (
    "named_struct('id', id, 'name', concat('name ', id), 'price', id / 7, 'sold', id % 2 = 0, "
    "'at', timestamp_millis(1700000000000 + id)) AS value"
)


def jobs(spark: SparkSession, servers: str, rows: DataFrame) -> dict[str, dict[str, Job]]:
    """Return the measured jobs by title (read, write) and name (Spark's function, typed)."""

    def read(**options: str) -> DataFrame:
        source = spark.read.format("odradek").option("kafka.bootstrap.servers", servers)
        return source.options(subscribe="source", **options).load()

    def use(frame: DataFrame) -> None:
        frame.agg(
            sf.sum("id"), sf.sum("price"), sf.max("name"), sf.count_if("sold"), sf.max("at")
        ).collect()

    def write(frame: DataFrame, topic: str, **options: str) -> None:
        writer = frame.write.format("odradek").mode("append").options(topic=topic, **options)
        writer.option("kafka.bootstrap.servers", servers).save()

    parsed = sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("value")
    typed = {"valueFormat": "json", "valueSchema": SCHEMA}
    return {
        "read": {
            "from_json": lambda: use(read().select(parsed).select("value.*")),
            "typed": lambda: use(read(**typed).select("value.*")),
        },
        "write": {
            "to_json": lambda: write(rows.withColumn("value", sf.to_json("value")), "classic"),
            "typed": lambda: write(rows, "typed", valueFormat="json"),
        },
    }


def main() -> None:
    """Measure all jobs, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_typed")
    parser.add_argument("--records", type=int, default=1_000_000)
    count = parser.parse_args().records
    with OdradekNode() as broker, Cluster(broker.bootstrap) as cluster:
        spark = session("bench", quick_start=False)
        create_topics(cluster, [NewTopic(name, 2, 1) for name in ("source", "classic", "typed")])
        rows = spark.range(count).selectExpr("string(id) AS key", ROW)
        writer = rows.withColumn("value", sf.to_json("value")).write.format("odradek")
        writer = writer.mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
        writer.option("topic", "source").save()
        for title, ways in jobs(spark, broker.bootstrap, rows).items():
            for name, cost in measure(ways, count, broker).items():
                print(f"{title:<6} {name:<10} {cost}")
        spark.stop()


if __name__ == "__main__":
    main()
