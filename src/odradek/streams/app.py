"""An application: its sources, its settings and its topology."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from odradek.core.streams.failures import Decision, Failure, skip
from odradek.core.streams.graph.builder import OPTIMIZATIONS
from odradek.core.streams.graph.nodes import Consumed, StoreGraph
from odradek.core.streams.model.durations import Duration, milliseconds
from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.model.serdes import serde_of
from odradek.core.streams.partition_group import NEVER_WAIT
from odradek.core.streams.stores.definition import Kind, StoreDefinition
from odradek.core.streams.task import TaskSettings
from odradek.core.streams.topology.definition import (
    SourceDefinition,
    TimestampExtractor,
    Topology,
)
from odradek.core.streams.topology.description import describe
from odradek.streams.dsl import GlobalTable, Stream, Table
from odradek.streams.functions import parameter_count
from odradek.streams.picture import picture
from odradek.streams.plan import streams
from odradek.streams.plan.handles import Plan
from odradek.streams.plan.materialized import Store, options

if TYPE_CHECKING:
    from odradek.client.core.streams_member import Endpoint
    from odradek.streams.on_spark.runner import SparkRunner
    from odradek.streams.process.worker import Service, Worker
    from odradek.streams.queries.local import Queries, StoreQuery

LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class App:
    """An application with the id that names its consumer group and its internal topics.

    Args:
        application_id: letters, digits, `.`, `_` and `-`.
        bootstrap_servers: `host:port`, several separated by commas.
        key: the type of keys where a stream or table does not say it.
        value: the type of values where a stream or table does not say it.
        cache_max_bytes: the size of the record cache (`statestore.cache.max.bytes`). With 0 each update
            is forwarded; else only the last one of each key, at the commit.
        max_task_idle: how long to wait for records of empty partitions, for the order of time
            (`max.task.idle.ms`); -1 is not to wait.
        optimize: "all", "none", or the names of optimizations (`topology.optimization`).
        in_memory: expire windows exactly, as Kafka Streams' in-memory stores do.
        on_undecodable: what to do with records that cannot be decoded: "fail", "skip", or a function that
            gets a Failure and returns one of them (`deserialization.exception.handler`).
        on_error: the same for errors of the program's functions (`processing.exception.handler`).
        dead_letters: the topic for skipped records (`errors.dead.letter.queue.topic.name`).

    Raises:
        TopologyError: the id is illegal.
    """

    def __init__(
        self,
        application_id: str,
        bootstrap_servers: str = "localhost:9092",
        *,
        key: Any = str,
        value: Any = str,
        cache_max_bytes: int = 10 * 1024 * 1024,
        max_task_idle: Duration = 0,
        optimize: str = "none",
        in_memory: bool = False,
        on_undecodable: str | Callable[[Failure], str] = "fail",
        on_error: str | Callable[[Failure], str] = "fail",
        dead_letters: str | None = None,
    ) -> None:
        if not LEGAL_NAME.fullmatch(application_id):
            raise TopologyError(
                f"{application_id!r} cannot begin names of topics: use letters, digits, '.', '_', '-'"
            )
        self.application_id = application_id
        self.bootstrap_servers = bootstrap_servers
        self.cache_max_bytes = cache_max_bytes
        self.max_task_idle_ms = (
            NEVER_WAIT if max_task_idle == NEVER_WAIT else milliseconds(max_task_idle)
        )
        self._on_undecodable = _decision(on_undecodable)
        self._on_error = _decision(on_error)
        self._dead_letters = dead_letters
        self._optimizations = _optimizations(optimize)
        self._plan = Plan(serde_of(key), serde_of(value), in_memory)
        self._topology: Topology | None = None
        self._queries: Queries | None = None

    def stream(
        self,
        *topics: str,
        key: Any = None,
        value: Any = None,
        timestamp: TimestampExtractor | Callable[[Any], int] | None = None,
        reset: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Read topics as a stream.

        `timestamp` returns the time of a record from its value, in milliseconds since 1970. `reset` is
        where to begin for the first time: "earliest" or "latest".
        """
        if not topics:
            raise TopologyError("a stream needs topics")
        return Stream(
            streams.source(
                self._open(), topics, None, self._consumed(key, value, timestamp, reset), name
            )
        )

    def table(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        store: str | Store | None = None,
        timestamp: TimestampExtractor | Callable[[Any], int] | None = None,
        reset: str | None = None,
        name: str | None = None,
    ) -> Table:
        """Read a topic as a table: the last record of each key."""
        consumed = self._consumed(key, value, timestamp, reset)
        return Table(streams.table_source(self._open(), topic, consumed, name, options(store)))

    def global_table(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        store: str | Store | None = None,
        name: str | None = None,
    ) -> GlobalTable:
        """Read a topic as a table that each process holds whole. Any stream can be joined with it."""
        consumed = self._consumed(key, value, None, None)
        return GlobalTable(
            streams.global_source(self._open(), topic, consumed, name, options(store))
        )

    def add_store(
        self, name: str, *, key: Any = None, value: Any = None, logged: bool = True
    ) -> None:
        """Add a key-value store for processors."""
        plan = self._open()
        store = StoreDefinition(
            name=name,
            kind=Kind.KEY_VALUE,
            key=plan.key if key is None else serde_of(key),
            value=plan.value if value is None else serde_of(value),
            is_logged=logged,
        )
        plan.graph.add(plan.graph.root, StoreGraph(store))

    def topology(self) -> Topology:
        """Return the topology. After that nothing can be added.

        Raises:
            TopologyError: it cannot work.
        """
        if self._topology is None:
            self._topology = self._plan.graph.build(self.application_id, self._optimizations)
            if self.cache_max_bytes == 0:
                for store in self._topology.stores.values():
                    store.without_cache()
        return self._topology

    def describe(self) -> str:
        """Return the topology as text, as Kafka Streams prints it."""
        return describe(self.topology())

    def picture(self) -> str:
        """Return the topology as a picture (SVG): what each task executes, and its topics and stores."""
        return picture(self.topology())

    def task_settings(self) -> TaskSettings:
        """Return the settings of the application's tasks."""
        return TaskSettings(
            cache_bytes=self.cache_max_bytes,
            max_idle_ms=self.max_task_idle_ms,
            on_undecodable=self._on_undecodable,
            on_error=self._on_error,
            dead_letters=self._dead_letters,
        )

    def worker(self, **settings: Any) -> Worker:
        """Return what runs the application's tasks in this process: `worker.run()`, `worker.stop()`.

        It creates the internal topics. Settings have Kafka's names, with dots or underscores:
        `processing_guarantee` ("at_least_once" or "exactly_once_v2"), `commit_interval_ms`,
        `replication_factor`, and those of the clients, such as `security_protocol`. A prefix says which
        client is meant: `consumer.`, `main.consumer.`, `restore.consumer.`, `global.consumer.`,
        `producer.`, `admin.`.

        Raises:
            ValueError: a setting is unknown or malformed.
            TopologyError: source topics are missing, or do not fit.
            ClientError: the cluster refuses, or cannot be reached.
        """
        from odradek.client.core.streams_member import Endpoint  # the client: tests do not need it
        from odradek.streams.process.settings import worker_settings
        from odradek.streams.process.worker import Worker
        from odradek.streams.queries.local import Queries

        tasks, reset = self.task_settings(), self._reset()
        chosen = worker_settings(settings, self.bootstrap_servers, reset, tasks)
        worker = Worker(self.topology(), chosen)
        own = None if chosen.endpoint is None else Endpoint(*chosen.endpoint)
        queries = Queries(
            self.topology(), worker.layout, worker.states, worker.global_stores, worker.hosts, own
        )
        if own is not None:
            try:
                worker.serve(_service(queries, own, worker.status))
            except BaseException:
                worker.close()
                raise
        self._queries = queries
        return worker

    def store(self, name: str, *, stale: bool = False, timeout: float = 5.0) -> StoreQuery:
        """Return a store of the application, as it is now: `get`, `range`, `all`, `fetch`.

        It is that of the worker that was made last in this process, and has the partitions that are
        here. `stale` also reads what standby tasks have. `timeout` is how long a read waits, in
        seconds, for a task that moves.

        Raises:
            QueryError: the application does not run here, or has no such store.
        """
        from odradek.streams.queries.errors import QueryError
        from odradek.streams.queries.local import StoreQuery

        if self._queries is None:
            raise QueryError(
                "the application does not run in this process: call run or worker first"
            )
        return StoreQuery(self._queries, name, stale=stale, timeout=timeout)

    def spark_runner(
        self,
        *,
        master: str | None = None,
        checkpoint: str | None = None,
        conf: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> SparkRunner:
        """Return what runs the application's tasks on Spark: `run()` and `stop()`. It creates the
        internal topics.

        `master` is the address of a cluster (by default all cores of this machine), `checkpoint` a
        directory for Spark's checkpoint (by default a temporary one: the progress is in the group), and
        `conf` has settings of Spark. The other settings are those of `worker`, except that
        `processing_guarantee` is always "exactly_once_v2".

        Raises:
            ImportError: pyspark or pyarrow are missing: install odradek[spark].
            ValueError: a setting is unknown or malformed.
            TopologyError: source topics are missing, or do not fit.
            ClientError: the cluster refuses, or cannot be reached.
        """
        from odradek.streams.on_spark.runner import SparkRunner
        from odradek.streams.on_spark.settings import SparkSettings, spark_worker_settings

        of_tasks = spark_worker_settings(
            settings, self.bootstrap_servers, self._reset(), self.task_settings()
        )
        return SparkRunner(self.topology(), of_tasks, SparkSettings(master, checkpoint, conf or {}))

    def run(self, *, on: str = "process", **settings: Any) -> None:
        """Run the application in this process until SIGINT or SIGTERM (or until it fails).

        Several processes share the work. For the settings see `worker`. With `on="spark"` it runs as
        one query of Spark instead; for the settings see `spark_runner`.

        Raises:
            ValueError: a setting is unknown or malformed.
            StreamsError: a record cannot be processed, or the topology does not fit the topics.
            ClientError: the cluster refuses, or cannot be reached.
        """
        if on not in ("process", "spark"):
            raise ValueError(f'an application runs on "process" or "spark": {on!r}')
        runner = self.spark_runner(**settings) if on == "spark" else self.worker(**settings)
        before = {
            number: signal.signal(number, lambda *_: runner.stop())
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            runner.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _reset(self) -> str | None:
        """Return where to begin for the first time; None if no stream or table says it."""
        resets = {
            node.reset
            for node in self.topology().nodes.values()
            if isinstance(node, SourceDefinition)
            and not node.is_internal
            and node.reset is not None
        }
        if len(resets) > 1:
            raise TopologyError("all streams and tables of a process need the same reset")
        return resets.pop() if resets else None

    def _open(self) -> Plan:
        if self._topology is not None:
            raise TopologyError("the topology has been built; declare everything before it runs")
        return self._plan

    def _consumed(self, key: Any, value: Any, timestamp: Any, reset: str | None) -> Consumed:
        if reset not in (None, "earliest", "latest", "none"):
            raise TopologyError(f'reset must be "earliest", "latest" or "none": {reset!r}')
        return Consumed(
            key=self._plan.key if key is None else serde_of(key),
            value=self._plan.value if value is None else serde_of(value),
            timestamp=None if timestamp is None else _extractor(timestamp),
            reset=reset,
        )


def _service(queries: Queries, endpoint: Endpoint, status: Callable[[], dict[str, Any]]) -> Service:
    """Return what answers queries over HTTP.

    Raises:
        ImportError: the HTTP server is not installed.
        ValueError: the address cannot be listened on.
    """
    try:
        from odradek.streams.queries.service import QueryService
    except ImportError as error:
        raise ImportError(
            f"application_server needs an HTTP server ({error}): pip install odradek[connect]"
        ) from error
    try:
        return QueryService(queries, endpoint, status)
    except OSError as error:
        raise ValueError(f"application_server {endpoint} cannot be listened on: {error}") from error


def _extractor(function: Any) -> TimestampExtractor:
    """Return a function of key, value, context and time. With one parameter it gets the value."""
    if parameter_count(function, 1, 4) == 1:
        return lambda _key, value, _context, _time: function(value)
    extractor: TimestampExtractor = function
    return extractor


def _decision(given: str | Callable[[Failure], str]) -> Decision | None:
    """Return what decides about failures."""
    if isinstance(given, str):
        return skip if _is_skip(given) else None
    decide = given
    return lambda failure: _is_skip(decide(failure))


def _is_skip(answer: str) -> bool:
    if answer not in ("fail", "skip"):
        raise ValueError(f'a failed record can "fail" or "skip": {answer!r}')
    return answer == "skip"


def _optimizations(optimize: str) -> frozenset[str]:
    if optimize == "all":
        return OPTIMIZATIONS
    if optimize == "none":
        return frozenset()
    chosen = frozenset(each.strip() for each in optimize.split(","))
    if chosen - OPTIMIZATIONS:
        raise TopologyError(
            f"unknown optimization {', '.join(sorted(chosen - OPTIMIZATIONS))}; there are "
            f"{', '.join(sorted(OPTIMIZATIONS))}, all and none"
        )
    return chosen
