"""`python -m bench.spark`: compares `format("odradek")` with Spark's own Kafka connector.

Both use the same Spark session (`local[2]`, without `quick_start`) and the same broker, and read the
same topics: four distributions of sizes, and three codecs. `bench.spark_jobs` has the jobs. In each round
the jobs of a kind run one after the other, and the order changes in every round. The processor time is
that of all processes: Spark, its Python workers, the broker, and this process.

With `--mode wheel` (the default) the program starts itself again with the wheel of this commit,
from which the broker and the Python workers come, too.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.odradek_node import OdradekNode
from compat.lab.spark_connector import connector_jars
from compat.lab.toolchain import Missing
from pyspark.sql import SparkSession

from bench import spark_jobs
from bench.build import WHEEL, Build, prepared
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.machine import facts
from bench.programs import CANNOT_RUN, add_common_options, run
from bench.results import conclude
from bench.spark_cpu import TreeCpu
from bench.spark_jobs import CODECS, SIZES, Job, Rival, Sizes
from bench.spark_table import CPU, ROWS
from odradek.client.admin.topics import NewTopic, create_topics, delete_topics
from odradek.client.cluster import Cluster
from odradek.spark import session

BENCH = "spark"
NAMES = {OURS: "odradek", THEIRS: "Spark's connector"}
BROKERS = {"odradek": OdradekNode, "apache": ApacheKafka}
PARTITIONS = 2
TYPED_RECORDS = 1_000_000
CpuTime = dict[str, float]
QUICK_FACTOR = 20
"""With `--quick` there are fewer records by this factor."""


class Bench:
    """A Spark session and a broker, and the figures so far."""

    def __init__(
        self, spark: SparkSession, broker: Broker, cpu: TreeCpu, options: argparse.Namespace
    ) -> None:
        self.figures: list[Figure] = []
        self.shares: dict[str, dict[str, dict[str, list[float]]]] = {}
        """The processor time by figure, role and kind of process, for each round, in µs per row."""
        self._spark = spark
        self._broker = broker
        self._cpu = cpu
        self._rounds: int = options.rounds
        self._factor = QUICK_FACTOR if options.quick else 1
        (properties,) = broker.directory.rglob("meta.properties")
        self._log_directory = str(properties.parent)

    def warm_up(self, rounds: int) -> None:
        """Run all jobs on one topic, without figures, until the JVM has compiled them."""
        self._measure_sizes(SIZES[0], "lz4", rounds, with_figures=False)
        self.measure_typed(rounds, with_figures=False)

    def measure(self, sizes: Sizes, codec: str) -> None:
        """Measure all jobs with records of these sizes."""
        self._measure_sizes(sizes, codec, self._rounds, with_figures=True)

    def _measure_sizes(self, sizes: Sizes, codec: str, rounds: int, *, with_figures: bool) -> None:
        records = sizes.records // self._factor
        servers = self._broker.bootstrap
        rows = spark_jobs.rows(self._spark, sizes, records)
        with Topics(servers, "source", "target"):
            spark_jobs.fill(rows, servers, "source", codec)
            reads = spark_jobs.reads(self._spark, servers, "source", self._log_directory)
            writes = spark_jobs.writes(rows, servers, "target", codec)
            self._play(f", {sizes.title}, {codec}", [*reads, writes], records, rounds, with_figures)

    def measure_typed(self, rounds: int | None = None, *, with_figures: bool = True) -> None:
        """Measure the jobs with JSON values."""
        records = TYPED_RECORDS // self._factor
        servers = self._broker.bootstrap
        rows = self._spark.range(records).selectExpr("string(id) AS key", spark_jobs.JSON_ROW)
        with Topics(servers, "json"):
            spark_jobs.fill(rows, servers, "json", "none")
            jobs = spark_jobs.typed_reads(self._spark, servers, "json")
            self._play("", [jobs], records, rounds or self._rounds, with_figures)

    def _play(
        self,
        suffix: str,
        groups: Iterable[Sequence[Rival]],
        records: int,
        rounds: int,
        with_figures: bool,
    ) -> None:
        """Run the jobs of each group in turn. A job that several pairs share runs once in a round."""
        for group in groups:
            figures = [_figures(rival, suffix) for rival in group]
            jobs = list(dict.fromkeys(job for rival in group for job in rival.jobs.values()))
            for number in range(rounds):
                taken = {job: self._run(job) for job in jobs[:: 1 if number % 2 == 0 else -1]}
                for rival, (rate, cost) in zip(group, figures, strict=True):
                    for role, job in rival.jobs.items():
                        seconds, cpu = taken[job]
                        rate.add(role, records / seconds / 1e6)
                        cost.add(role, sum(cpu.values()) / records * 1e6)
                        if with_figures:
                            self._keep(cost.quantity.name, role, cpu, records)
            for pair in figures:
                _say(pair, is_warm_up=not with_figures)
                if with_figures:
                    self.figures += pair

    def _keep(self, name: str, role: str, cpu: CpuTime, records: int) -> None:
        """Keep the processor time of a round by kind of process, in µs per row."""
        by_kind = self.shares.setdefault(name, {}).setdefault(role, {})
        for kind, seconds in cpu.items():
            by_kind.setdefault(kind, []).append(round(seconds / records * 1e6, 3))

    def _run(self, job: Job) -> tuple[float, CpuTime]:
        """Run a job, and return its time and its processor time in seconds, the latter by kind."""
        began, cpu_began = time.perf_counter(), self._cpu.seconds()
        job()
        taken, cpu_ended = time.perf_counter() - began, self._cpu.seconds()
        return taken, {kind: cpu_ended[kind] - cpu_began[kind] for kind in cpu_ended}


class Topics:
    """Creates topics, and deletes them at the end of a `with` statement."""

    def __init__(self, servers: str, *names: str) -> None:
        self._servers = servers
        self._names = names

    def __enter__(self) -> None:
        with Cluster(self._servers) as cluster:
            create_topics(cluster, [NewTopic(name, PARTITIONS, 1) for name in self._names])

    def __exit__(self, *_: object) -> None:
        with Cluster(self._servers) as cluster:
            delete_topics(cluster, self._names)


def _figures(rival: Rival, suffix: str) -> tuple[Figure, Figure]:
    """Return the figures of a pair of jobs: rows per second, and processor time."""
    rate = Quantity(f"{rival.name}{suffix}{ROWS}", "M/s", rival.limit, higher_is_better=True)
    cost = Quantity(f"{rival.name}{suffix}{CPU}", "µs/row", rival.cpu_limit)
    return Figure(BENCH, rate), Figure(BENCH, cost)


def _say(figures: tuple[Figure, Figure], *, is_warm_up: bool) -> None:
    texts = []
    for figure in figures:
        ours, theirs = figure.median(OURS) or 0, figure.median(THEIRS) or 1
        texts.append(f"{ours:.2f} / {theirs:.2f} {figure.quantity.unit} = {ours / theirs:.2f}")
    title = figures[0].quantity.name.removesuffix(ROWS)
    print(f"{'warm-up ' if is_warm_up else ''}{title:60} {'   '.join(texts)}", flush=True)


def parse_options() -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few records; to try it out")
    parser.add_argument("--broker", choices=BROKERS, default="odradek")
    titles = [each.title for each in SIZES]
    parser.add_argument("--sizes", nargs="*", choices=titles, default=titles)
    parser.add_argument("--codecs", nargs="*", choices=CODECS, default=CODECS)
    parser.add_argument("--no-typed", action="store_true", help="without typed values")
    parser.add_argument("--warm-up", type=int, default=4, help="rounds before the first figure")
    add_common_options(parser, rounds=3)
    return parser.parse_args()


def start_again(build: Build) -> None:
    """Replace this process by one that uses the wheel, unless it does."""
    if build.mode == WHEEL and Path(sys.executable) != build.python:
        environment = {key: each for key, each in os.environ.items() if key != "PYTHONPATH"}
        words = [str(build.python), "-m", "bench.spark", *sys.argv[1:]]
        os.execve(build.python, words, environment)


def measure(options: argparse.Namespace, build: Build) -> tuple[list[Figure], dict[str, object]]:
    """Measure everything that was asked for, and return the figures and the setup."""
    conf = {"spark.jars": ",".join(map(str, connector_jars()))}
    with BROKERS[options.broker]() as broker, TreeCpu(broker.process.pid) as cpu:
        spark = session("bench", master="local[2]", conf=conf, quick_start=False)
        setup = {
            "kind": "setup",
            OURS: {"name": NAMES[OURS], **build.described()},
            THEIRS: {"name": NAMES[THEIRS]},
            "broker": broker.described(),
            "spark": spark.version,
            "rounds": options.rounds,
        }
        bench = Bench(spark, broker, cpu, options)
        try:
            bench.warm_up(options.warm_up)
            for title, codec in ((s, c) for s in options.sizes for c in options.codecs):
                bench.measure(next(each for each in SIZES if each.title == title), codec)
            if not options.no_typed:
                bench.measure_typed()
        finally:
            spark.stop()
    return bench.figures, {**setup, "cpu_by_process": bench.shares}


def main() -> int:
    """Run the experiment, and return the exit code (`programs`)."""
    options = parse_options()
    try:
        build = prepared(options.mode)
        start_again(build)
        machine = facts()
        figures, setup = measure(options, build)
    except (BrokerFailed, Missing) as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return CANNOT_RUN
    return conclude(figures, NAMES, machine, setup, is_trial=options.quick, output=options.output)


if __name__ == "__main__":
    run(main)
