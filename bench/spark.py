"""`python -m bench.spark`: compares `format("odradek")` with Spark's own Kafka connector.

Both use the same Spark session (`local[2]`, without `quick_start`) and the same broker, and read the
same topics: four distributions of sizes, and three codecs. `bench.spark_jobs` has the jobs. In each round
the jobs of a kind run one after the other, and the order changes in every round. The processor time is
that of all processes: Spark, its Python workers, the broker, and this process.

Each cell (sizes and a codec) has new topics, and so has each write. After each cell the results so
far are stored. A job that fails is printed and stored as a failure, and the run goes on; then the
exit code is 1.

With `--times` the topics are larger, so that the start of a job counts less: that of a streaming
query is a third of a short one.

With `--mode wheel` (the default) the program starts itself again with the wheel of this commit,
from which the broker and the Python workers come, too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.odradek_node import OdradekNode
from compat.lab.spark_connector import connector_jars
from compat.lab.toolchain import Missing
from pyspark.sql import SparkSession

from bench import spark_jobs
from bench.build import WHEEL, Build, prepared
from bench.figures import OURS, THEIRS
from bench.machine import facts
from bench.programs import CANNOT_RUN, add_common_options, run
from bench.results import conclude, store
from bench.spark_cpu import TreeCpu
from bench.spark_jobs import CODECS, SIZES, Sizes
from bench.spark_rounds import Rounds
from odradek.client.admin.topics import NewTopic, create_topics, delete_topics
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.spark import session

NAMES = {OURS: "odradek", THEIRS: "Spark's connector"}
BROKERS = {"odradek": OdradekNode, "apache": ApacheKafka}
PARTITIONS = 2
TYPED_RECORDS = 1_000_000
BROKER_SETTINGS = {"auto.create.topics.enable": "false"}
"""Producers that Spark keeps ask for the metadata of a topic also after it was deleted. This must not
create it again, with one partition: records that older metadata send to the second partition then
expire after two minutes, with Apache Kafka too (tried)."""
QUICK_FACTOR = 20
"""With `--quick` there are fewer records by this factor."""


class Bench:
    """A Spark session and a broker, and the rounds so far."""

    def __init__(
        self, spark: SparkSession, broker: Broker, cpu: TreeCpu, options: argparse.Namespace
    ) -> None:
        self.rounds = Rounds(cpu.seconds, self._create, options.times)
        self._spark = spark
        self._servers = broker.bootstrap
        self._count: int = options.rounds
        self._divisor = QUICK_FACTOR if options.quick else 1
        self._times = options.times
        (properties,) = broker.directory.rglob("meta.properties")
        self._log_directory = str(properties.parent)

    def warm_up(self, rounds: int) -> None:
        """Run all jobs on one topic, without figures, until the JVM has compiled them."""
        first = SIZES[0]
        self._measure_sizes(first, "lz4", first.records, rounds, with_figures=False)
        self.measure_typed(rounds, with_figures=False)

    def cells(self, options: argparse.Namespace) -> list[Callable[[], None]]:
        """Return a function for each cell that was asked for."""
        found: list[Callable[[], None]] = [
            partial(self.measure, next(each for each in SIZES if each.title == title), codec)
            for title in options.sizes
            for codec in options.codecs
        ]
        return found if options.no_typed else [*found, self.measure_typed]

    def measure(self, sizes: Sizes, codec: str) -> None:
        """Measure all jobs with records of these sizes."""
        records = sizes.records * self._times
        self._measure_sizes(sizes, codec, records, self._count, with_figures=True)

    def _measure_sizes(
        self, sizes: Sizes, codec: str, records: int, rounds: int, *, with_figures: bool
    ) -> None:
        records //= self._divisor
        suffix = f", {sizes.title}, {codec}"
        with self._cell(suffix):
            rows = spark_jobs.rows(self._spark, sizes, records)
            topic = self.rounds.new_topic("source")
            spark_jobs.fill(rows, self._servers, topic, codec)
            reads = spark_jobs.reads(self._spark, self._servers, self._log_directory)
            jobs = [*reads, spark_jobs.writes(rows, self._servers, codec)]
            self.rounds.play(suffix, jobs, topic, records, rounds, with_figures=with_figures)

    def measure_typed(self, rounds: int | None = None, *, with_figures: bool = True) -> None:
        """Measure the jobs with JSON values."""
        records = TYPED_RECORDS // self._divisor
        with self._cell(", typed JSON"):
            rows = self._spark.range(records).selectExpr("string(id) AS key", spark_jobs.JSON_ROW)
            topic = self.rounds.new_topic("json")
            spark_jobs.fill(rows, self._servers, topic, "none")
            jobs = [spark_jobs.typed_reads(self._spark, self._servers)]
            count = rounds or self._count
            self.rounds.play("", jobs, topic, records, count, with_figures=with_figures)

    def _create(self, name: str) -> None:
        with Cluster(self._servers) as cluster:
            (created,) = create_topics(cluster, [NewTopic(name, PARTITIONS, 1)]).values()
        if isinstance(created, ClientError):
            raise created

    @contextlib.contextmanager
    def _cell(self, title: str) -> Iterator[None]:
        """Keep what fails as a failure of the cell, and delete the cell's topics at its end."""
        before = len(self.rounds.topics)
        with self.rounds.cell(f"cell{title}"):
            try:
                yield
            finally:
                with Cluster(self._servers) as cluster:
                    delete_topics(cluster, self.rounds.topics[before:])


def parse_options() -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few records; to try it out")
    parser.add_argument("--broker", choices=BROKERS, default="odradek")
    titles = [each.title for each in SIZES]
    parser.add_argument("--sizes", nargs="*", choices=titles, default=titles)
    parser.add_argument("--codecs", nargs="*", choices=CODECS, default=CODECS)
    parser.add_argument(
        "--times", type=int, default=1, help="topics with so many times the records"
    )
    parser.add_argument("--no-typed", action="store_true", help="without typed values")
    parser.add_argument("--warm-up", type=int, default=8, help="rounds before the first figure")
    add_common_options(parser, rounds=3)
    return parser.parse_args()


def start_again(build: Build) -> None:
    """Replace this process by one that uses the wheel, unless it does."""
    if build.mode == WHEEL and Path(sys.executable) != build.python:
        environment = {key: each for key, each in os.environ.items() if key != "PYTHONPATH"}
        words = [str(build.python), "-m", "bench.spark", *sys.argv[1:]]
        os.execve(build.python, words, environment)


def measure(options: argparse.Namespace, build: Build) -> int:
    """Measure everything that was asked for, and return the exit code.

    It is 1 if a job failed, or a limit is missed.
    """
    machine = facts()
    conf = {"spark.jars": ",".join(map(str, connector_jars()))}
    with (
        BROKERS[options.broker](settings=BROKER_SETTINGS) as broker,
        TreeCpu(broker.process.pid) as cpu,
    ):
        spark = session("bench", master="local[2]", conf=conf, quick_start=False)
        setup: dict[str, object] = {
            "kind": "setup",
            OURS: {"name": NAMES[OURS], **build.described()},
            THEIRS: {"name": NAMES[THEIRS]},
            "broker": broker.described(),
            "spark": spark.version,
            "rounds": options.rounds,
            "times": options.times,
        }
        bench = Bench(spark, broker, cpu, options)
        rounds = bench.rounds
        setup["cpu_by_process"] = rounds.shares
        try:
            bench.warm_up(options.warm_up)
            cells = bench.cells(options)
            for number, cell in enumerate(cells, 1):
                cell()
                setup["cells"] = f"{number} of {len(cells)}"
                known = (rounds.figures, machine, setup, rounds.failures)
                store(*known, is_trial=options.quick, output=options.output)
        finally:
            spark.stop()
    return _end(rounds, machine, setup, options)


def _end(
    rounds: Rounds,
    machine: dict[str, object],
    setup: dict[str, object],
    options: argparse.Namespace,
) -> int:
    """Print the table and the failures, and return the exit code."""
    code = conclude(
        rounds.figures,
        NAMES,
        machine,
        setup,
        rounds.failures,
        is_trial=options.quick,
        output=options.output,
    )
    for each in rounds.failures:
        print(f"FAILED {each['name']}: {each['error']}")
    return 1 if rounds.failures else code


def main() -> int:
    """Run the experiment, and return the exit code (`programs`)."""
    options = parse_options()
    try:
        build = prepared(options.mode)
        start_again(build)
        return measure(options, build)
    except (BrokerFailed, Missing) as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return CANNOT_RUN


if __name__ == "__main__":
    run(main)
