"""Streams: sources, operators without state, sinks, repartition topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from odradek.core.streams.graph.builder import repartition_names
from odradek.core.streams.graph.nodes import (
    Consumed,
    GraphNode,
    ProcessorGraph,
    RepartitionGraph,
    SinkGraph,
    SourceGraph,
    TableSourceGraph,
)
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.serdes import Serde
from odradek.core.streams.processors.base import Definition, Simple
from odradek.core.streams.processors.stateless import Branch, PassThrough, Predicate, SelectKey
from odradek.core.streams.processors.tables import TableSource
from odradek.core.streams.topology.definition import Partitioner, TopicChooser
from odradek.streams.plan.handles import (
    GlobalHandle,
    GroupedHandle,
    Plan,
    StreamHandle,
    TableHandle,
)
from odradek.streams.plan.materialized import Store, key_value_store


def source(
    plan: Plan, topics: Iterable[str], pattern: str | None, consumed: Consumed, name: str | None
) -> StreamHandle:
    """Read topics as a stream."""
    graph = plan.graph
    node_name = graph.name(name, "KSTREAM-SOURCE-")
    node = SourceGraph(node_name, topics, pattern, consumed)
    graph.add(graph.root, node)
    return StreamHandle(
        plan=plan,
        name=node_name,
        key=consumed.key,
        value=consumed.value,
        sources=frozenset({node_name}),
        is_rekeyed=False,
        node=node,
    )


def table_source(
    plan: Plan, topic: str, consumed: Consumed, name: str | None, store: Store
) -> TableHandle:
    """Read a topic as a table."""
    graph = plan.graph
    store_name = store.name or graph.new_store_name(topic + "-")
    source_name = graph.suffixed(name, "-source", "KSTREAM-SOURCE-")
    node_name = graph.name(name, "KTABLE-SOURCE-")
    table = TableSource(store_name, store.name is not None)
    definition = key_value_store(store_name, store, consumed.key, consumed.value, plan.in_memory)
    node = TableSourceGraph(node_name, source_name, topic, consumed, definition, table)
    node.set_versioned(store.history is not None)
    graph.add(graph.root, node)
    return TableHandle(
        plan=plan,
        name=node_name,
        key=consumed.key,
        value=consumed.value,
        sources=frozenset({source_name}),
        node=node,
        definition=table,
        store_name=store.name,
    )


def global_source(
    plan: Plan, topic: str, consumed: Consumed, name: str | None, store: Store
) -> GlobalHandle:
    """Read a topic as a global table."""
    graph = plan.graph
    store_name = store.name or graph.new_store_name(topic + "-")
    source_name = graph.suffixed(name, "-source", "KSTREAM-SOURCE-")
    node_name = graph.name(name, "KTABLE-SOURCE-")
    table = TableSource(store_name, True)
    definition = key_value_store(store_name, store, consumed.key, consumed.value, plan.in_memory)
    definition.log_to_source()
    definition.without_cache()
    node = TableSourceGraph(
        node_name, source_name, topic, consumed, definition, table, is_global=True
    )
    graph.add(graph.root, node)
    return GlobalHandle(plan=plan, key=consumed.key, value=consumed.value, definition=table)


def operator(
    stream: StreamHandle,
    prefix: str,
    name: str | None,
    make: Callable[[], Node],
    *,
    key: Serde | None = None,
    value: Serde | None = None,
    changes_key: bool = False,
    changes_value: bool = False,
) -> StreamHandle:
    """Add an operator without state."""
    graph = stream.plan.graph
    node_name = graph.name(name, prefix)
    node = ProcessorGraph(
        node_name, Simple(make), changes_key=changes_key, changes_value=changes_value
    )
    graph.add(stream.node, node)
    return replace(
        stream,
        name=node_name,
        key=key or stream.key,
        value=value or stream.value,
        is_rekeyed=stream.is_rekeyed or changes_key,
        node=node,
    )


def merge(stream: StreamHandle, other: StreamHandle, name: str | None) -> StreamHandle:
    """Merge two streams."""
    graph = stream.plan.graph
    node_name = graph.name(name, "KSTREAM-MERGE-")
    node = ProcessorGraph(node_name, Simple(PassThrough), merges=True)
    graph.add_to_all([stream.node, other.node], node)
    return replace(
        stream,
        name=node_name,
        sources=stream.sources | other.sources,
        is_rekeyed=stream.is_rekeyed or other.is_rekeyed,
        node=node,
    )


class Splitter:
    """A stream that is split into branches."""

    def __init__(self, stream: StreamHandle, name: str | None) -> None:
        self._stream = stream
        self._predicates: list[Predicate] = []
        self._has_default = False
        graph = stream.plan.graph
        self.name = graph.name(name, "KSTREAM-BRANCH-")
        predicates = self._predicates
        self._node = ProcessorGraph(
            self.name, Simple(lambda: Branch(predicates, lambda: self._has_default))
        )
        graph.add(stream.node, self._node)

    def branch(self, predicate: Predicate, name: str | None) -> StreamHandle:
        """Add a branch."""
        self._predicates.append(predicate)
        return self._child(str(len(self._predicates)) if name is None else name)

    def default(self, name: str | None) -> StreamHandle:
        """Add the branch of all other records."""
        self._has_default = True
        return self._child("0" if name is None else name)

    def _child(self, suffix: str) -> StreamHandle:
        graph = self._stream.plan.graph
        name = self.name + suffix
        graph.number()
        node = ProcessorGraph(name, Simple(PassThrough))
        graph.add(self._node, node)
        return replace(self._stream, name=name, node=node)


def sink(
    stream: StreamHandle,
    topic: str | None,
    chooser: TopicChooser | None,
    key: Serde,
    value: Serde,
    partitioner: Partitioner | None,
    name: str | None,
) -> None:
    """Write a stream to a topic."""
    graph = stream.plan.graph
    node = SinkGraph(graph.name(name, "KSTREAM-SINK-"), topic, chooser, key, value, partitioner)
    graph.add(stream.node, node)


def repartition(
    stream: StreamHandle,
    name: str | None,
    key: Serde,
    value: Serde,
    partitioner: Partitioner | None,
    partitions: int | None,
) -> StreamHandle:
    """Send a stream through a topic."""
    graph = stream.plan.graph
    names = repartition_names(graph, name or graph.new_name("KSTREAM-REPARTITION-"))
    node = RepartitionGraph(
        topic=names[0],
        sink_name=names[1],
        filter_name=names[2],
        source_name=names[3],
        key=key,
        value=value,
        partitioner=partitioner,
        partitions=partitions,
        can_merge=False,
    )
    graph.add(stream.node, node)
    return behind(stream, node, key, value)


def repartition_node(plan: Plan, prefix: str, key: Serde, value: Serde) -> RepartitionGraph:
    """Return a node for a repartition topic that optimization may merge with others."""
    names = repartition_names(plan.graph, prefix)
    return RepartitionGraph(
        topic=names[0],
        sink_name=names[1],
        filter_name=names[2],
        source_name=names[3],
        key=key,
        value=value,
    )


def behind(stream: StreamHandle, node: GraphNode, key: Serde, value: Serde) -> StreamHandle:
    """Return the stream that comes out of a repartition topic."""
    return replace(
        stream,
        name=node.name,
        key=key,
        value=value,
        sources=frozenset({node.name}),
        is_rekeyed=False,
        node=node,
    )


def to_table(
    stream: StreamHandle, name: str | None, store: Store, key: Serde, value: Serde
) -> TableHandle:
    """Read a stream as a table."""
    plan = stream.plan
    graph = plan.graph
    node_name = graph.name(name, "KSTREAM-TOTABLE-")
    store_name = store.name or graph.new_store_name("KSTREAM-TOTABLE-")
    parent: GraphNode = stream.node
    sources = stream.sources
    if stream.is_rekeyed:
        parent = repartition_node(plan, node_name, key, value)
        graph.add(stream.node, parent)
        sources = frozenset({parent.name})
    table = TableSource(store_name, store.name is not None)
    definition = key_value_store(store_name, store, key, value, plan.in_memory)
    node = ProcessorGraph(node_name, table, store=definition)
    node.set_versioned(store.history is not None)
    graph.add(parent, node)
    return TableHandle(
        plan=plan,
        name=node_name,
        key=key,
        value=value,
        sources=sources,
        node=node,
        definition=table,
        store_name=store.name,
    )


def group_by(
    stream: StreamHandle, mapper: Callable[[Any, Any], Any], key: Serde, name: str | None
) -> GroupedHandle:
    """Group a stream by another key."""
    graph = stream.plan.graph
    node_name = graph.name(name, "KSTREAM-KEY-SELECT-")
    node = ProcessorGraph(node_name, Simple(lambda: SelectKey(mapper)), changes_key=True)
    graph.add(stream.node, node)
    rekeyed = replace(stream, name=node_name, key=key, is_rekeyed=True, node=node)
    return GroupedHandle(stream=rekeyed, topic=name)


def process(
    stream: StreamHandle,
    definition: Definition,
    stores: Iterable[str],
    key: Serde,
    value: Serde,
    name: str | None,
    *,
    changes_key: bool,
) -> StreamHandle:
    """Add a processor of the program."""
    graph = stream.plan.graph
    prefix = "KSTREAM-PROCESSOR-" if changes_key else "KSTREAM-PROCESSVALUES-"
    node_name = name if name is not None else graph.new_name(prefix)
    node = ProcessorGraph(node_name, definition, store_names=stores)
    graph.add(stream.node, node)
    return replace(
        stream,
        name=node_name,
        key=key,
        value=value,
        is_rekeyed=stream.is_rekeyed or changes_key,
        node=node,
    )
