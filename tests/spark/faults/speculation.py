"""Copies a topic on a cluster that starts a second attempt of a slow task while the first one runs.

    python -m tests.spark.faults.speculation MASTER DIRECTORY < JOBS

Each line of the input is a `Copy` as JSON, and each line of the output says how it ended: `written`,
`refused`, or `conflict`. The task of the first partition writes its rows, and waits in its first
attempt until Spark has started a second one, which begins to write after it.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark import TaskContext
from pyspark.errors import PySparkException

import odradek.spark
from odradek.spark import distribution
from odradek.spark.options import write_options
from odradek.spark.source import OdradekDataSource
from odradek.spark.writers import BatchWriter, StreamWriter

CONF = {
    "spark.cores.max": "4",
    "spark.executor.cores": "2",
    "spark.executor.memory": "512m",
    "spark.python.authenticate.socketTimeout": "300s",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.stage.maxConsecutiveAttempts": "1",
}
FIRST, SECOND = "first", "second"
WRITTEN, REFUSED, CONFLICT = "written", "refused", "conflict"
WAIT_SECONDS_MAX = 240.0
BATCH_BYTES = 1024
"""The size of record batches. A waiting task has written all but the last one."""


@dataclass(frozen=True)
class Copy:
    """What is written, and how."""

    servers: str
    source: str
    target: str
    streaming: bool
    guarantee: str
    by_tasks: bool
    """Whether the tasks write in the transaction (`by_partition`)."""
    checks_session: bool
    """Whether `by_partition` refuses a session with speculation."""
    winner: str
    """The attempt that ends first: the other one continues after it, or is killed."""
    name: str

    def line(self) -> str:
        """Return the job as a line of the program's input."""
        return f"{json.dumps(asdict(self))}\n"


def slow(kind, directory: Path, winner: str):
    """Return a writer whose first task has two attempts at the same time."""
    first_written = directory / "first-written"
    started, ended = directory / "second-started", directory / "second-ended"

    class Slow(kind):
        def write(self, iterator):
            context = TaskContext.get()
            assert context is not None
            if context.partitionId() > 0:
                return super().write(iterator)
            if context.attemptNumber() == 0:
                written = super().write(iterator)
                first_written.touch()
                wait_for(ended if winner == SECOND else started)
                return written
            started.touch()
            wait_for(first_written)
            try:
                written = super().write(iterator)
            finally:
                if winner == FIRST:
                    wait_for(directory / "never")
                ended.touch()
            return written

    return Slow


class SlowSource(OdradekDataSource):
    @classmethod
    def name(cls) -> str:
        return "slow"

    def writer(self, schema, overwrite):
        return self._new(BatchWriter, schema)

    def streamWriter(self, schema, overwrite):
        return self._new(StreamWriter, schema)

    def _new(self, kind, schema):
        options = dict(self.options)
        directory, winner = Path(options.pop("directory")), options.pop("winner")
        return slow(kind, directory, winner)(write_options(options), schema)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(path.name)
        time.sleep(0.05)


def copy(spark, job: Copy, directory: Path) -> str:
    options = {"kafka.bootstrap.servers": job.servers, "topic": job.target}
    options |= {"kafka.batch.size": str(BATCH_BYTES)}
    reader = spark.readStream if job.streaming else spark.read
    rows = reader.format("odradek").option("kafka.bootstrap.servers", job.servers)
    rows = rows.options(subscribe=job.source, startingOffsets="earliest").load()
    rows = rows.select("key", "value")
    check_session = distribution._check_session
    if not job.checks_session:
        distribution._check_session = lambda _: None
    try:
        if job.by_tasks:
            rows = odradek.spark.by_partition(rows, options)
    except ValueError as error:
        if "spark.speculation=false" not in str(error):
            raise
        return REFUSED
    finally:
        distribution._check_session = check_session
    options |= {"deliveryGuarantee": job.guarantee}
    options |= {"directory": str(directory), "winner": job.winner}
    try:
        if job.streaming:
            options |= {"checkpointLocation": str(directory / "checkpoint")}
            writer = rows.writeStream.format("slow").options(**options)
            writer.trigger(availableNow=True).start().awaitTermination()
        else:
            rows.write.format("slow").mode("append").options(**options).save()
    except PySparkException as error:
        if "a task of an exactly-once write has failed before" not in str(error):
            raise
        return CONFLICT
    return WRITTEN


def main(master: str, directory: str) -> int:
    spark = odradek.spark.session("speculation", master=master, conf=CONF)
    spark.dataSource.register(SlowSource)
    for line in sys.stdin:
        job = Copy(**json.loads(line))
        own = Path(directory) / job.name
        own.mkdir()
        outcome = copy(spark, job, own)
        seen = int((own / "second-started").exists())
        sys.stdout.write(f"{job.name} {outcome} {seen}\n")
        sys.stdout.flush()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
