"""Tables: filters, mapped values, streams of their changes, suppression, aggregations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.core.streams.graph.builder import window_delay_ms
from odradek.core.streams.graph.nodes import ProcessorGraph, RepartitionGraph
from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.model.serdes import Serde
from odradek.core.streams.processors.aggregates import (
    Aggregator,
    Initializer,
    TableAggregate,
    TableRegroup,
)
from odradek.core.streams.processors.base import Simple
from odradek.core.streams.processors.stateless import Mapper, Predicate, ToStream
from odradek.core.streams.processors.suppress import Suppress
from odradek.core.streams.processors.tables import ChildTable, TableFilter, TableMapValues
from odradek.core.streams.stores.definition import Kind, StoreDefinition
from odradek.streams.plan.handles import StreamHandle, TableHandle
from odradek.streams.plan.materialized import Store, key_value_store


def table_filter(
    table: TableHandle, predicate: Predicate, keeps: bool, store: Store | None, name: str | None
) -> TableHandle:
    """Add a filter."""
    prefix = "KTABLE-FILTER-"
    if store is not None and store.name is None:
        table.plan.graph.new_store_name(prefix)
    node_name = table.plan.graph.name(name, prefix)
    store_name = None if store is None else store.name
    definition = TableFilter(table.definition, table.enable_old, store_name, predicate, keeps)
    return _child(table, node_name, definition, store, table.key, table.value)


def table_map_values(
    table: TableHandle, mapper: Mapper, value: Serde, store: Store | None, name: str | None
) -> TableHandle:
    """Replace the values."""
    prefix = "KTABLE-MAPVALUES-"
    if store is not None and store.name is None:
        table.plan.graph.new_store_name(prefix)
    node_name = table.plan.graph.name(name, prefix)
    store_name = None if store is None else store.name
    definition = TableMapValues(table.definition, table.enable_old, store_name, mapper)
    return _child(table, node_name, definition, store, table.key, value)


def _child(
    table: TableHandle,
    name: str,
    definition: ChildTable,
    store: Store | None,
    key: Serde,
    value: Serde,
) -> TableHandle:
    stored = None
    if store is not None and store.name is not None:
        stored = key_value_store(store.name, store, key, value, table.plan.in_memory)
    node = _VersionsGraph(name, definition, store=stored)
    if store is not None:
        node.set_versioned(store.history is not None)
    table.plan.graph.add(table.node, node)
    table.plan.graph.check_later(node.use_versions)
    return TableHandle(
        plan=table.plan,
        name=name,
        key=key,
        value=value,
        sources=table.sources,
        node=node,
        definition=definition,
        store_name=None if store is None else store.name,
    )


class _VersionsGraph(ProcessorGraph):
    """An operator that works differently behind a versioned table."""

    def use_versions(self) -> None:
        """Tell the operator whether a table before it is versioned."""
        definition = self.definition
        if isinstance(definition, ChildTable | TableRegroup) and any(
            is_versioned(parent) for parent in self.parents
        ):
            definition.use_versions()


def is_versioned(node: Any) -> bool:
    """Return whether a node's output is a versioned table, or comes from one."""
    if node.output_is_versioned is not None:
        return bool(node.output_is_versioned)
    parents = node.parents
    return bool(parents) and all(is_versioned(parent) for parent in parents)


def to_stream(table: TableHandle, name: str | None) -> StreamHandle:
    """Turn the changes of a table into a stream."""
    graph = table.plan.graph
    node_name = graph.name(name, "KTABLE-TOSTREAM-")
    node = ProcessorGraph(node_name, Simple(ToStream))
    graph.add(table.node, node)
    return StreamHandle(
        plan=table.plan,
        name=node_name,
        key=table.key,
        value=table.value,
        sources=table.sources,
        is_rekeyed=False,
        node=node,
    )


def suppress(
    table: TableHandle,
    wait_ms: int | None,
    *,
    max_records: int | None,
    max_bytes: int | None,
    stops_when_full: bool,
    name: str | None,
    is_logged: bool,
) -> TableHandle:
    """Hold updates back for a time, or, if `wait_ms` is None, until their windows close."""
    if table.node.output_is_versioned:
        raise TopologyError("suppress() is only supported for non-versioned tables")
    graph = table.plan.graph
    node_name = name if name is not None else graph.new_name("KTABLE-SUPPRESS-")
    until_window_closes = wait_ms is None
    if wait_ms is None:
        wait_ms = window_delay_ms(table.node)
    store_name = f"{name}-store" if name is not None else graph.new_store_name("KTABLE-SUPPRESS-")
    definition = Suppress(
        table.definition,
        table.enable_old,
        store_name,
        wait_ms,
        until_window_closes=until_window_closes,
        max_records=max_records,
        max_bytes=max_bytes,
        stops_when_full=stops_when_full,
    )
    store = StoreDefinition(
        name=store_name,
        kind=Kind.SUPPRESS,
        key=table.key,
        value=table.value,
        is_logged=is_logged,
    )
    node = ProcessorGraph(node_name, definition, store=store)
    node.set_versioned(False)
    parent = table.node

    def check() -> None:
        if is_versioned(parent):
            raise TopologyError(
                "suppress() is only supported for non-versioned tables "
                "(a table is versioned if the tables before it are)"
            )

    graph.check_later(check)
    graph.add(table.node, node)
    return TableHandle(
        plan=table.plan,
        name=node_name,
        key=table.key,
        value=table.value,
        sources=frozenset({table.name}),
        node=node,
        definition=definition,
        store_name=None,
    )


class TableGrouping:
    """A grouped table. Its aggregations share one repartition topic if the program named it."""

    def __init__(
        self,
        table: TableHandle,
        mapper: Callable[[Any, Any], tuple[Any, Any]],
        key: Serde,
        value: Serde,
        name: str | None,
    ) -> None:
        graph = table.plan.graph
        self._plan = table.plan
        self._topic_name = name
        self._topic: RepartitionGraph | None = None
        self.key = key
        self.value = value
        self.name = graph.name(name, "KTABLE-SELECT-")
        self._node = _VersionsGraph(self.name, TableRegroup(mapper))
        graph.add(table.node, self._node)
        graph.check_later(self._node.use_versions)
        table.enable_old(True)

    def aggregate(
        self,
        initializer: Initializer | None,
        adder: Aggregator,
        subtractor: Aggregator,
        value: Serde,
        prefix: str,
        store: Store,
        name: str | None,
    ) -> TableHandle:
        """Add an aggregation. Without initializer it reduces."""
        graph = self._plan.graph
        store_name = store.name or graph.new_store_name("KTABLE-AGGREGATE-")
        sink_name = graph.suffixed(name, "-sink", "KSTREAM-SINK-")
        source_name = graph.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = graph.name(name, prefix)
        topic = f"{self._topic_name or store_name}-repartition"
        if self._topic is None or self._topic_name is None:
            self._topic = RepartitionGraph(
                topic=topic,
                sink_name=sink_name,
                filter_name=None,
                source_name=source_name,
                key=self.key,
                value=self.value,
                can_merge=False,
            )
        graph.add(self._node, self._topic)
        table = TableAggregate(store_name, initializer, adder, subtractor)
        definition = key_value_store(store_name, store, self.key, value, self._plan.in_memory)
        node = ProcessorGraph(node_name, table, store=definition)
        node.set_versioned(store.history is not None)
        graph.add(self._topic, node)
        return TableHandle(
            plan=self._plan,
            name=node_name,
            key=self.key,
            value=value,
            sources=frozenset({source_name}),
            node=node,
            definition=table,
            store_name=store.name,
        )
