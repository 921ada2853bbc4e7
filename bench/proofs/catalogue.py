"""The list of long tests: the command of each test, and how much it does at full size."""

from __future__ import annotations

import sys

from bench.proofs.long_test import LongTest

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def _pytest(*paths: str) -> tuple[str, ...]:
    return (*PYTEST, *paths)


_SPARK_WRITES = (
    "src/odradek/spark/transactional.py",
    "src/odradek/spark/writers.py",
    "src/odradek/spark/markers.py",
    "src/odradek/spark/sharing.py",
    "src/odradek/spark/exchange.py",
    "src/odradek/spark/topic_writer.py",
    "src/odradek/spark/producing.py",
    "src/odradek/spark/distribution.py",
    "src/odradek/spark/readers.py",
    "src/odradek/client/producer/encoded.py",
    "src/odradek/client/producer/transactions.py",
)
"""What decides whether Spark writes each record once."""


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def _benchmark(name: str) -> LongTest:
    module = f"bench.{name}"
    return LongTest(
        name, f"the benchmark {module}", 1, _module(module), quick_arguments=("--quick",)
    )


_KILLS = _pytest("tests/crash/test_kill_nine.py")
_POWER = _pytest("tests/log/test_power_loss.py", "tests/log/cleaner/test_power_loss.py")
_RECOVERY = (
    "src/odradek/log/recovery.py",
    "src/odradek/log/log_end.py",
    "src/odradek/log/log_appender.py",
    "src/odradek/log/flush_state.py",
    "src/odradek/log/checkpoints.py",
    "src/odradek/log/startup.py",
    "src/odradek/log/producer_snapshot.py",
)
_PIPELINES = tuple(
    f"examples/{name}"
    for name in ("activity", "commitlog", "logs", "metrics", "stages", "suggestions")
)
_ONE_SCENARIO = ("--clients", "librdkafka", "--only", "headers*")

PYTHONS = ("3.11", "3.12", "3.13")
"""The versions of Python for which results are stored."""

LONG_TESTS = (
    LongTest(
        "groups", "histories of groups compared with Apache Kafka", 2000,
        _pytest("tests/oracle/group_histories"), "ODRADEK_HISTORIES",
        concerns=("src/odradek/core/group/classic", "tests/oracle/group_histories"),
    ),
    LongTest(
        "transactions", "histories of transactions compared with Apache Kafka", 2000,
        _pytest("tests/oracle/transactions"), "ODRADEK_TRANSACTION_HISTORIES",
        concerns=("src/odradek/core/transaction", "tests/oracle/transactions"),
    ),
    LongTest(
        "share-histories", "histories of share groups compared with Apache Kafka", 2000,
        _pytest("-m", "cluster or not cluster", "tests/oracle/share_histories"),
        "ODRADEK_SHARE_HISTORIES",
        concerns=("src/odradek/core/share", "tests/oracle/share_histories"),
    ),
    LongTest(
        "streams-histories", "histories of Streams groups compared with Apache Kafka", 2000,
        _pytest("-m", "cluster or not cluster", "tests/oracle/streams_histories"),
        "ODRADEK_STREAMS_HISTORIES",
        concerns=("src/odradek/core/group/streams", "tests/oracle/streams_histories"),
    ),
    LongTest(
        "long-handlers", "seconds of work on one record, in both shells and both protocols of groups", 900,
        _pytest("-m", "long", "tests/client/test_long_handlers.py"), "ODRADEK_HANDLER_SECONDS",
        concerns=(
            "src/odradek/client/core/group_member.py", "src/odradek/client/core/classic_member.py",
            "src/odradek/client/core/heartbeat_member.py", "src/odradek/client/shell/keeper.py",
            "src/odradek/client/aio/shell.py", "tests/client/test_long_handlers.py",
        ),
    ),
    LongTest(
        "streams-assignments", "assignments of tasks to 10 000 Streams groups, as Apache Kafka's", 50_000,
        _pytest("tests/streams/test_assignor.py"), "ODRADEK_STREAMS_GROUPS",
        concerns=("src/odradek/core/group/streams/assignor.py", "tests/streams/test_assignor.py"),
    ),
    LongTest(
        "streams-applications",
        "Kafka Streams 4.4 on Odradek and on Apache Kafka 4.4, with the same answers", 1,
        _pytest("-m", "long", "tests/oracle/streams_histories/test_applications.py"),
        concerns=(
            "src/odradek/core/group/streams/reconcile.py",
            "tests/oracle/streams_histories/test_applications.py",
            "tests/oracle/streams_histories/word_count.py",
        ),
    ),
    LongTest(
        "client-telemetry", "push of metrics to Apache Kafka by both shells, beside Java's client", 1,
        _pytest("-m", "long", "tests/oracle/test_java_telemetry.py"),
        concerns=(
            "src/odradek/client/core/telemetry.py", "src/odradek/client/core/client_metrics.py",
            "src/odradek/client/core/otlp_encoding.py", "tests/oracle/test_java_telemetry.py",
        ),
    ),
    LongTest(
        "connect-rest", "requests to Connect's REST API, answered by Apache Kafka's worker", 1,
        _pytest("-m", "long", "tests/oracle/test_java_connect_rest.py"),
        concerns=("src/odradek/core/connect", "tests/connect/rest_script.py"),
    ),
    LongTest(
        "streams-topologies", "topologies with histories compared with Kafka Streams' test driver", 100_000,
        _pytest("-n", "2", "tests/streams_api/test_kafka_streams.py"), "ODRADEK_HISTORIES",
        concerns=("src/odradek/core/streams", "tests/streams_api/generator.py"),
    ),
    LongTest(
        "streams-swap", "word counts and joins that Kafka Streams in Java and ours run in turns", 1,
        _pytest("-m", "long", "-n", "2", "tests/streams_api/test_swap.py"),
        concerns=("src/odradek/streams/process", "tests/streams_api/swap", "tests/streams_api/test_swap.py"),
    ),
    LongTest(
        "streams-spark-faults", "kills and stops of workers that run tasks of an application as Spark's do", 50,
        _pytest("tests/spark/test_streams_workers.py"), "ODRADEK_STREAMS_WORKER_FAULTS",
        concerns=("src/odradek/streams/on_spark", "tests/spark/test_streams_workers.py"),
    ),
    LongTest(
        "streams-spark-kills", "kills of drivers and workers of an application on Spark", 10,
        _pytest("-m", "long", "tests/spark/test_streams_kills.py"), "ODRADEK_STREAMS_SPARK_KILLS",
        concerns=("src/odradek/streams/on_spark", "tests/spark/test_streams_kills.py"),
    ),
    LongTest(
        "files",
        "alternating starts of Apache Kafka and Odradek on one data directory, in both orders", 20,
        _pytest("-m", "cluster or not cluster", "tests/oracle/files"), "ODRADEK_FILE_TURNS",
        concerns=(*_RECOVERY, "tests/oracle/files"),
    ),
    LongTest(
        "targets", "groups whose targets are compared with Apache Kafka's", 10_000,
        _pytest("tests/group/test_targets_as_kafka.py"), "ODRADEK_TARGET_GROUPS",
        concerns=("src/odradek/core/group/consumer", "tests/group/test_targets_as_kafka.py"),
    ),
    LongTest(
        "rules", "pairs of a rule and a name, of each of four kinds, compared with Apache Kafka's classes", 20_000,
        _pytest("-m", "cluster or not cluster", "tests/oracle/test_java_rules.py"), "ODRADEK_RULES",
        concerns=("src/odradek/java_regex", "tests/oracle/test_java_rules.py"),
    ),
    LongTest(
        "assignors", "groups whose assignments by clients are compared with Apache Kafka's, over four rebalances", 10_000,
        _pytest("-m", "cluster or not cluster", "tests/oracle/test_java_assignors.py"), "ODRADEK_GROUPS",
        concerns=("src/odradek/client/core/assignors", "tests/oracle/test_java_assignors.py"),
    ),
    LongTest(
        "simulation", "simulated histories of transactions with crashes", 1000,
        _pytest("tests/transaction/test_simulation.py"), "ODRADEK_SEEDS",
        concerns=("src/odradek/core/transaction", "tests/transaction/simulation.py"),
    ),
    LongTest(
        "node-simulation", "simulated runs of a node, each repeated with the same seed", 200,
        _module("tests.sim"), has_count_argument=True,
        concerns=("src/odradek/sim",),
    ),
    LongTest(
        "kills-50", "kills of the node under load", 50, _KILLS, "ODRADEK_KILLS",
        concerns=(*_RECOVERY, "tests/crash/kill_loop.py"),
    ),
    LongTest(
        "kills-100", "kills of the node under load", 100, _KILLS, "ODRADEK_KILLS",
        concerns=(*_RECOVERY, "tests/crash/kill_loop.py"),
    ),
    LongTest(
        "job-kills", "kills of jobs of three clients, or of the node", 300,
        _pytest("tests/crash/test_exactly_once.py"), "ODRADEK_JOB_KILLS", divisor=3,
        concerns=("src/odradek/core/transaction", "tests/crash/exactly_once.py", "tests/crash/jobs"),
    ),
    LongTest(
        "demo", "interruptions of the demo", 3,
        _pytest(
            "-m", "cluster", "tests/spark/test_demo.py", "-k", "test_interrupted_in_the_middle"
        ),
        "ODRADEK_DEMO_INTERRUPTIONS",
        concerns=("src/odradek/demo", "tests/spark/test_demo.py"),
    ),
    LongTest(
        "pipelines", "the pipelines of examples/, each reconciled", 1,
        _pytest(
            "-m", "long", "tests/spark/test_pipelines.py", "tests/spark/test_examples.py",
            "tests/spark/test_pipeline_command.py", "tests/spark/test_own_data.py",
        ),
        concerns=("src/odradek/pipelines", *_PIPELINES),
    ),
    LongTest(
        "pipeline-kills",
        "records of own data for each pipeline, which is killed twice and compared with DuckDB", 200_000,
        _module("tests.pipelines.own_kills"), has_count_argument=True,
        concerns=("src/odradek/pipelines/own", *_PIPELINES, "tests/pipelines/own_kills"),
    ),
    LongTest(
        "spark-machines", "runs on a standalone cluster of Spark, one of whose two workers is killed", 9,
        _module("tests.spark.faults.machines"), has_count_argument=True,
        concerns=("src/odradek/spark/transactional.py", "tests/spark/faults/machines"),
    ),
    LongTest(
        "spark-exactly-once",
        "exactly-once queries with kills of their processes and of brokers, and other faults", 200,
        _module("tests.spark.faults"), has_count_argument=True,
        concerns=(*_SPARK_WRITES, "tests/spark/faults"),
    ),
    LongTest(
        "spark-speculation", "seven queries of which Spark runs two attempts of a task at the same time", 1,
        _pytest("-m", "long", "tests/spark/test_speculation.py"),
        concerns=("src/odradek/spark/transactional.py", "src/odradek/spark/writers.py", "tests/spark/faults/speculation.py"),
    ),
    LongTest(
        "spark-installation", "the wheel in a new environment, on one machine and on a cluster", 1,
        _pytest("-m", "long", "tests/spark/test_installation.py"),
        concerns=("requirements", "hatch_build.py", "tests/spark/test_installation.py"),
    ),
    LongTest(
        "spark-memory", "records, read in a batch and in a stream, and written, by one worker each", 50_000_000,
        _pytest("-m", "long", "tests/spark/test_worker_memory.py"), "ODRADEK_SPARK_MEMORY_ROWS",
        concerns=(
            "src/odradek/arrow/columns.py", "src/odradek/arrow/positions.py", "tests/spark/test_worker_memory.py",
        ),
    ),
    LongTest(
        "spark-at-least-once", "at-least-once queries with the same kills, which repeat records", 20,
        _module("tests.spark.faults", "--guarantee", "at-least-once"), has_count_argument=True,
        concerns=(*_SPARK_WRITES, "tests/spark/faults"),
    ),
    LongTest(
        "spark-own-sink", "queries with Spark's own sink and the same kills, which repeat records",
        20, _module("tests.spark.faults", "--guarantee", "spark"), has_count_argument=True,
        concerns=("tests/spark/faults",),
    ),
    LongTest(
        "cluster-faults", "kills, stops and pauses of the nodes of a cluster under load", 200,
        _pytest("-m", "cluster", "tests/crash/test_cluster_faults.py"), "ODRADEK_CLUSTER_FAULTS",
        concerns=(
            "src/odradek/core/replica",
            "src/odradek/core/raft",
            "tests/crash/cluster_loop.py",
            "tests/crash/fault_loop.py",
        ),
    ),
    LongTest(
        "share-kills", "kills of a node and of members of a share group", 100,
        _pytest("-m", "cluster", "tests/crash/test_share_kills.py"), "ODRADEK_SHARE_KILLS",
        concerns=(
            "src/odradek/core/share",
            "src/odradek/core/share_coordinator",
            "tests/crash/share_loop.py",
        ),
    ),
    LongTest(
        "moves", "kills of a node during moves between log directories", 50,
        _pytest("-m", "cluster or long", "tests/crash/test_moves.py"), "ODRADEK_KILLS",
        concerns=("src/odradek/log/manager", "src/odradek/log/directory.py", "tests/crash/moving_loop.py"),
    ),
    LongTest(
        "permissions", "responses with and without rights compared with Apache Kafka", 1,
        _pytest("-m", "long or not long", "tests/authorizer/matrix"),
        concerns=(
            "src/odradek/core/authorizer",
            "src/odradek/handlers/authorization.py",
            "tests/authorizer/matrix",
        ),
    ),
    LongTest(
        "migration", "nodes of Apache Kafka replaced by Odradek and back", 1,
        _pytest("-m", "long", "tests/crash/test_migration.py"),
        concerns=(
            "src/odradek/core/metadata",
            "tests/crash/migration_loop.py",
            "tests/crash/test_migration.py",
        ),
    ),
    LongTest(
        "next-release",
        "kills in quorums of Odradek and Apache Kafka 4.4, which have formatted for each other; and the levels of "
        "features rise with 4.3 and 4.4, a kill after each", 12,
        _pytest("-m", "long", "tests/crash/test_next_release_kills.py"),
        "ODRADEK_RELEASE_KILLS", divisor=2,
        concerns=(
            "src/odradek/core/metadata",
            "tests/crash/next_loop.py",
            "tests/crash/test_next_release_kills.py",
        ),
    ),
    LongTest(
        "connect", "Connect and MirrorMaker, exactly once, while brokers are killed", 1,
        _pytest("-m", "long", "tests/crash/test_connect.py"),
        concerns=("tests/crash/copy_jobs.py", "tests/crash/test_connect.py"),
    ),
    LongTest(
        "connect-swap",
        "groups of workers of Apache Kafka, replaced by Odradek's and back while a source and a sink run", 1,
        _pytest("-m", "long", "tests/oracle/test_java_connect_group.py", "-k", "roll"),
        concerns=("src/odradek/core/connect/group_protocol.py", "tests/oracle/test_java_connect_group.py"),
    ),
    LongTest(
        "mirror-swap", "MirrorMaker 2 in Java and Odradek's take turns in one flow, some are killed", 1,
        _pytest("-m", "long", "tests/crash/test_mirror_swap.py"),
        concerns=("src/odradek/connectors/mirror", "tests/crash/test_mirror_swap.py"),
    ),
    LongTest(
        "cluster-simulation", "simulated runs of a cluster, each repeated with the same seed", 30,
        _module("tests.sim", "--long-cluster"), has_count_argument=True,
        concerns=("src/odradek/sim",),
    ),
    LongTest(
        "cluster-seeds", "short simulated runs of a cluster, one in ten of them repeated", 500,
        _module("tests.sim", "--cluster"), has_count_argument=True,
        concerns=("src/odradek/sim", "src/odradek/core/raft", "src/odradek/core/replica"),
    ),
    LongTest(
        "cluster-planted-bugs", "all bugs that are planted into a simulated cluster", 1,
        _module("tests.sim.planted"), quick_arguments=("fencing moves no leaders",),
        concerns=("src/odradek/sim", "tests/sim"),
    ),
    LongTest(
        "power-losses", "simulated power losses", 10_000, _POWER, "ODRADEK_POWER_LOSSES",
        concerns=(*_RECOVERY, "tests/log/test_power_loss.py"),
    ),
    LongTest(
        "anomalies", "seconds of concurrent clients and faults", 300,
        _pytest("tests/anomalies"), "ODRADEK_ANOMALY_SECONDS",
        concerns=("src/odradek/core/transaction", "tests/anomalies"),
    ),
    LongTest(
        "cluster-anomalies", "seconds of concurrent clients on a cluster, and faults", 300,
        _pytest("-m", "cluster", "tests/anomalies"), "ODRADEK_CLUSTER_ANOMALY_SECONDS",
        concerns=("src/odradek/core/replica", "tests/anomalies"),
    ),
    LongTest("fuzz", "all invalid input", 1, _pytest("tests/bad_input", "tests/wire")),
    LongTest(
        "rolling-certificates",
        "changes of all certificates and of their authority in a cluster under load", 50,
        _pytest("-m", "cluster", "tests/node/test_secure_cluster.py"),
        "ODRADEK_CERTIFICATE_CHANGES",
        concerns=(
            "src/odradek/env/tls_stream.py",
            "tests/node/certificate_load.py",
            "tests/node/test_secure_cluster.py",
        ),
    ),
    LongTest(
        "attacks", "percent of the connections and requests of all attacks", 100,
        _pytest("-m", "long", "tests/attacks"), "ODRADEK_ATTACK_PERCENT",
        extra={"ODRADEK_ATTACK_BUILD": "wheel"},
        concerns=("src/odradek/network", "tests/attacks"),
    ),
    *(
        LongTest(
            f"python-{version}", f"all tests on the compiled wheel, and the demo, on Python {version}", 1,
            _module("bench.proofs.pythons", version), quick_arguments=("ARGS=tests/tls",),
            concerns=("requirements", "bench/proofs/pythons.py", "compat/lab/pythons.py"),
        )
        for version in PYTHONS
    ),
    LongTest("compat", "all clients", 1, _module("compat"), quick_arguments=_ONE_SCENARIO),
    LongTest(
        "compat-apache", "all clients against Apache Kafka", 1,
        _module("compat", "--against", "apache"), quick_arguments=_ONE_SCENARIO,
        concerns=("compat",),
    ),
    _benchmark("isolation"),
    _benchmark("compaction"),
    _benchmark("recovery"),
    _benchmark("scale"),
)  # fmt: skip
BY_NAME = {each.name: each for each in LONG_TESTS}
GROUPS = {
    "kills": ("kills-50", "kills-100"),
    "pythons": tuple(f"python-{version}" for version in PYTHONS),
}
"""Names of several long tests together."""


def chosen(names: list[str]) -> list[LongTest]:
    """Return the long tests with these names, or all if there are no names.

    Raises:
        KeyError: there is no long test with one of the names.
    """
    wanted = [one for name in names for one in GROUPS.get(name, (name,))]
    return [BY_NAME[name] for name in wanted] if wanted else list(LONG_TESTS)
