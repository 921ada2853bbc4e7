"""An application: its sources, its settings and its topology."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from odradek.core.streams.graph.builder import OPTIMIZATIONS
from odradek.core.streams.graph.nodes import Consumed, StoreGraph
from odradek.core.streams.model.durations import Duration, milliseconds
from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.model.serdes import serde_of
from odradek.core.streams.partition_group import NEVER_WAIT
from odradek.core.streams.stores.definition import Kind, StoreDefinition
from odradek.core.streams.task import TaskSettings
from odradek.core.streams.topology.definition import TimestampExtractor, Topology
from odradek.core.streams.topology.description import describe
from odradek.streams.dsl import GlobalTable, Stream, Table
from odradek.streams.functions import parameter_count
from odradek.streams.plan import streams
from odradek.streams.plan.handles import Plan
from odradek.streams.plan.materialized import Store, options

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
        self._optimizations = _optimizations(optimize)
        self._plan = Plan(serde_of(key), serde_of(value), in_memory)
        self._topology: Topology | None = None

    def stream(
        self,
        *topics: str,
        key: Any = None,
        value: Any = None,
        pattern: str | None = None,
        timestamp: TimestampExtractor | Callable[[Any], int] | None = None,
        reset: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Read topics, or all that match a regular expression, as a stream.

        `timestamp` returns the time of a record from its value, in milliseconds since 1970. `reset` is
        where to begin for the first time: "earliest" or "latest".
        """
        if bool(topics) == (pattern is not None):
            raise TopologyError("a stream needs topics, or a pattern instead")
        return Stream(
            streams.source(
                self._open(), topics, pattern, self._consumed(key, value, timestamp, reset), name
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

    def task_settings(self) -> TaskSettings:
        """Return the settings of the application's tasks."""
        return TaskSettings(cache_bytes=self.cache_max_bytes, max_idle_ms=self.max_task_idle_ms)

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


def _extractor(function: Any) -> TimestampExtractor:
    """Return a function of key, value, context and time. With one parameter it gets the value."""
    if parameter_count(function, 1, 4) == 1:
        return lambda _key, value, _context, _time: function(value)
    extractor: TimestampExtractor = function
    return extractor


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
