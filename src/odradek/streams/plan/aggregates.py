"""Aggregations of grouped streams: without windows, over windows, of several streams."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.core.streams.graph.nodes import GraphNode, ProcessorGraph, RepartitionGraph
from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.model.serdes import LONG_MAX, Serde, SessionSerde, WindowedSerde
from odradek.core.streams.model.windows import Hopping, Session, Sliding, Unlimited
from odradek.core.streams.processors.aggregates import (
    Aggregator,
    Initializer,
    StoredTable,
    StreamAggregate,
)
from odradek.core.streams.processors.sessions import Merger, SessionAggregate
from odradek.core.streams.processors.sliding import SlidingAggregate
from odradek.core.streams.processors.tables import TablePassThrough
from odradek.core.streams.processors.windowed import WindowAggregate
from odradek.core.streams.stores.definition import Kind, StoreDefinition
from odradek.streams.plan.handles import GroupedHandle, Plan, StreamHandle, TableHandle
from odradek.streams.plan.materialized import Store, key_value_store, window_store
from odradek.streams.plan.streams import repartition_node

Window = Hopping | Unlimited | Sliding | Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """What is computed. `merger` adds two aggregates of sessions."""

    initializer: Initializer
    aggregator: Aggregator
    value: Serde
    merger: Merger | None = None
    window: Window | None = None
    emits_final: bool = False


class Grouping:
    """A grouped stream. Its aggregations share one repartition topic if the program named it."""

    def __init__(self, handle: GroupedHandle) -> None:
        self.handle = handle
        self._topic: RepartitionGraph | None = None

    def aggregate(
        self, what: Aggregation, prefix: str, store: Store, name: str | None
    ) -> TableHandle:
        """Add an aggregation. `prefix` begins generated names."""
        stream = self.handle.stream
        plan = stream.plan
        graph = plan.graph
        store_name = store.name or graph.new_store_name(prefix)
        node_name = graph.name(name, prefix)
        definition = store_of(plan, store_name, store, stream.key, what)
        table = definition_of(store_name, what)
        parent: GraphNode = stream.node
        sources = stream.sources
        if stream.is_rekeyed:
            topic = repartition_node(
                plan, self.handle.topic or store_name, stream.key, stream.value
            )
            sources = frozenset({topic.name})
            if self._topic is None or self.handle.topic is None:
                self._topic = topic
            graph.add(stream.node, self._topic)
            parent = self._topic
        node = ProcessorGraph(node_name, table, store=definition)
        node.set_versioned(definition.kind is Kind.VERSIONED)
        graph.add(parent, node)
        return TableHandle(
            plan=plan,
            name=node_name,
            key=key_of(stream.key, what),
            value=what.value,
            sources=sources,
            node=node,
            definition=table,
            store_name=store.name,
        )


def cogroup(
    parts: list[tuple[Grouping, Aggregator]], what: Aggregation, store: Store, name: str | None
) -> TableHandle:
    """Aggregate several grouped streams into one table."""
    streams = [part.handle.stream for part, _ in parts]
    plan = streams[0].plan
    graph = plan.graph
    store_name = store.name or graph.new_store_name("COGROUPKSTREAM-AGGREGATE-")
    key = streams[0].key
    definition = store_of(plan, store_name, store, key, what)
    parents = [_parent(plan, part, store_name) for part, _ in parts]
    graph.copartition(
        set().union(
            *(_sources(stream, parent) for stream, parent in zip(streams, parents, strict=True))
        )
    )
    nodes: list[ProcessorGraph] = []
    tables = []
    for number, ((_, aggregator), parent) in enumerate(zip(parts, parents, strict=True)):
        table = definition_of(store_name, what, aggregator)
        tables.append(table)
        node_name = graph.suffixed(name, f"-cogroup-agg-{number}", "COGROUPKSTREAM-AGGREGATE-")
        if number == 0:
            node = ProcessorGraph(node_name, table, store=definition)
        else:
            node = ProcessorGraph(node_name, table, store_names=[store_name])
        node.set_versioned(definition.kind is Kind.VERSIONED)
        nodes.append(node)
        graph.add(parent, node)
    merge_name = graph.suffixed(name, "-cogroup-merge", "COGROUPKSTREAM-MERGE-")
    merged = TablePassThrough(list(tables), tables[0].view())
    node = ProcessorGraph(merge_name, merged)
    graph.add_to_all(nodes, node)
    return TableHandle(
        plan=plan,
        name=merge_name,
        key=key_of(key, what),
        value=what.value,
        sources=frozenset({merge_name}),
        node=node,
        definition=merged,
        store_name=store.name,
    )


def _parent(plan: Plan, part: Grouping, store_name: str) -> GraphNode:
    stream = part.handle.stream
    if not stream.is_rekeyed:
        return stream.node
    node = repartition_node(plan, part.handle.topic or store_name, stream.key, stream.value)
    plan.graph.add(stream.node, node)
    return node


def _sources(stream: StreamHandle, _parent: GraphNode) -> frozenset[str]:
    return stream.sources


def key_of(key: Serde, what: Aggregation) -> Serde:
    """Return the type of the table's keys."""
    window = what.window
    if window is None:
        return key
    if isinstance(window, Session):
        return SessionSerde(key)
    return WindowedSerde(key, _size_of(window))


def _size_of(window: Hopping | Unlimited | Sliding) -> int:
    return window.difference_ms if isinstance(window, Sliding) else window.size_ms


def store_of(plan: Plan, name: str, store: Store, key: Serde, what: Aggregation) -> StoreDefinition:
    """Return the store of an aggregation."""
    window = what.window
    if window is None:
        return key_value_store(name, store, key, what.value, plan.in_memory)
    if isinstance(window, Session):
        needed_ms = window.gap_ms + window.grace_ms
        kind = Kind.SESSION
        size_ms = 0
    elif isinstance(window, Sliding):
        needed_ms = 2 * window.difference_ms + window.grace_ms
        kind = Kind.WINDOW
        size_ms = window.difference_ms
    else:
        needed_ms = min(window.size_ms + window.grace_ms, LONG_MAX)
        kind = Kind.WINDOW
        size_ms = window.size_ms
    can_cache = isinstance(window, Hopping | Unlimited) or not what.emits_final
    return window_store(
        name,
        store,
        key,
        what.value,
        plan.in_memory,
        kind=kind,
        size_ms=size_ms,
        needed_ms=needed_ms,
        can_cache=can_cache,
        emits_final=what.emits_final,
    )


def definition_of(
    store_name: str, what: Aggregation, aggregator: Aggregator | None = None
) -> StoredTable:
    """Return the processor of an aggregation."""
    aggregator = aggregator or what.aggregator
    window = what.window
    if window is None:
        return StreamAggregate(store_name, what.initializer, aggregator)
    if isinstance(window, Session):
        if what.merger is None:
            raise TopologyError("an aggregation over sessions needs a merger of two aggregates")
        return SessionAggregate(
            store_name, window, what.initializer, aggregator, what.merger, what.emits_final
        )
    if isinstance(window, Sliding):
        return SlidingAggregate(store_name, window, what.initializer, aggregator, what.emits_final)
    if isinstance(window, Unlimited) and what.emits_final:
        raise TopologyError("an unlimited window never closes, so it has no final result")
    return WindowAggregate(store_name, window, what.initializer, aggregator, what.emits_final)
