"""Runs streaming queries from one topic to another, each until its input is processed.

    python -m tests.spark.faults.job MASTER READY GUARANTEE [--archive]

The program starts a Spark session, creates the file READY with the id of the application, and runs
one query for each line of its input. A line is a `Query` as JSON. A query that fails starts again.
With --archive the session writes an archive of its classes when the input ends, with which later
sessions start faster.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from compat.lab.spark_connector import connector_jars
from pyspark.errors import PySparkException
from tests.spark.faults.plan import SPARK
from tests.spark.faults.source import FaultySource, with_steps

import odradek.spark
from odradek.client.errors import ClientError
from odradek.pipelines.settings import CONF as PIPELINE_CONF

RECORDS_PER_BATCH = 40
BATCH_BYTES = 1024
"""The size of record batches. A task has several, so that `task-middle` is in the middle."""
ERRORS_MAX = 100
"""Attempts of a query. On a busy machine Spark gives up waiting for a worker after ten seconds."""
ENDED, FAILED = "ended", "failed"

CONF = {
    **PIPELINE_CONF,
    "spark.cores.max": "2",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.python.authenticate.socketTimeout": "300s",  # a worker on a busy machine starts slowly
}


@dataclass(frozen=True)
class Query:
    """What a query reads and writes."""

    servers: str
    source: str
    target: str
    checkpoint: str
    faults: str
    """The directory of the files that arm steps."""
    distribution: str
    done: str
    """The file that has `ended` or `failed` after the query."""

    def line(self) -> str:
        """Return the query as a line of the program's input."""
        return f"{json.dumps(asdict(self))}\n"


def main(master: str, ready: str, guarantee: str, archive: str = "") -> int:
    conf = dict(CONF)
    if guarantee == SPARK:
        conf["spark.jars"] = ",".join(map(str, connector_jars()))
    spark = odradek.spark.session("job", master=master, conf=conf, share_classes=bool(archive))
    spark.dataSource.register(FaultySource)
    write(Path(ready), spark.sparkContext.applicationId)
    for line in sys.stdin:
        query = Query(**json.loads(line))
        write(Path(query.done), run(spark, query, guarantee))
    spark.stop()
    return 0


def run(spark, query: Query, guarantee: str) -> str:
    for _ in range(ERRORS_MAX):
        try:  # `by_partition` also connects to a broker, which may be down
            started(spark, query, guarantee).awaitTermination()
        except (PySparkException, ClientError) as error:
            sys.stdout.write(f"{str(error).splitlines()[0]}\n")
            sys.stdout.flush()
        else:
            return ENDED
    return FAILED


def started(spark, query: Query, guarantee: str):
    options = {"kafka.bootstrap.servers": query.servers, "topic": query.target}
    rows = (
        spark.readStream.format("odradek")
        .options(subscribe=query.source, startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=RECORDS_PER_BATCH, commitOffsets=False)
        .option("kafka.bootstrap.servers", query.servers)
        .load()
        .select("key", "value")
    )
    if guarantee == SPARK:
        rows = rows.mapInArrow(with_steps(Path(query.faults)), rows.schema)
        writer = rows.writeStream.format("kafka")
    else:
        options |= {"kafka.batch.size": str(BATCH_BYTES)}
        if query.distribution == "tasks" and guarantee == "exactly-once":
            rows = odradek.spark.by_partition(rows, options)
        writer = rows.writeStream.format("faulty").options(
            faults=query.faults, deliveryGuarantee=guarantee
        )
    writer = writer.options(checkpointLocation=query.checkpoint, **options)
    return writer.trigger(availableNow=True).start()


def write(path: Path, text: str) -> None:
    """Write a file that appears with its content."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.rename(path)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
