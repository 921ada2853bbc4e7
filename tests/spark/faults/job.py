"""A streaming query from the topic `source` to the topic `target`, which starts again after errors.

    python -m tests.spark.faults.job SERVERS CHECKPOINT FAULTS GUARANTEE DISTRIBUTION MASTER

It ends when all records are processed.
"""

from __future__ import annotations

import sys

from pyspark.errors import PySparkException
from tests.spark.faults.source import FaultySource

import odradek.spark
from odradek.pipelines.settings import LOCAL_FILES

RECORDS_PER_BATCH = 100
ERRORS_MAX = 20


CONF = {
    **LOCAL_FILES,
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    "spark.stage.maxConsecutiveAttempts": "1",
}


def main(
    servers: str, checkpoint: str, faults: str, guarantee: str, distribution: str, master: str
) -> int:
    spark = odradek.spark.session("job", master=master, conf=CONF)
    spark.dataSource.register(FaultySource)
    options = {"kafka.bootstrap.servers": servers, "topic": "target"}
    rows = (
        spark.readStream.format("odradek")
        .options(subscribe="source", startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=RECORDS_PER_BATCH)
        .option("kafka.bootstrap.servers", servers)
        .load()
        .select("key", "value")
    )
    if distribution == "tasks":
        rows = odradek.spark.by_partition(rows, options)
    for _ in range(ERRORS_MAX):
        query = (
            rows.writeStream.format("faulty")
            .options(checkpointLocation=checkpoint, faults=faults, deliveryGuarantee=guarantee)
            .options(**options)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except PySparkException as error:
            sys.stdout.write(f"{str(error).splitlines()[0]}\n")
        else:
            spark.stop()
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
