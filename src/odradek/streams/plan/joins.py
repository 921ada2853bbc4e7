"""Joins of streams and tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from odradek.core.streams.graph.nodes import GraphNode, ProcessorGraph
from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.model.serdes import Serde
from odradek.core.streams.model.windows import JoinWindow
from odradek.core.streams.processors.base import Simple
from odradek.core.streams.processors.lookup_joins import LookupJoin
from odradek.core.streams.processors.stateless import PassThrough
from odradek.core.streams.processors.stream_joins import (
    JoinDefinition,
    Joiner,
    StreamJoinSide,
    WindowedSide,
)
from odradek.core.streams.processors.table_joins import (
    TableJoin,
    TableJoinMerger,
    TableJoinSide,
)
from odradek.core.streams.stores.definition import Kind, StoreDefinition
from odradek.core.streams.topology.definition import ProcessorDefinition, Topology
from odradek.streams.plan.handles import GlobalHandle, StreamHandle, TableHandle
from odradek.streams.plan.materialized import Store, key_value_store
from odradek.streams.plan.streams import behind, repartition_node
from odradek.streams.plan.tables import is_versioned


def _for_join(stream: StreamHandle, topic: str) -> StreamHandle:
    """Send a stream with a changed key through a topic. A stream that is joined twice goes once."""
    plan = stream.plan
    node = repartition_node(plan, topic, stream.key, stream.value)
    known = plan.join_topics.get(stream.node)
    if known is not None and stream.name == topic:
        return behind(stream, known, stream.key, stream.value)
    plan.join_topics[stream.node] = node
    plan.graph.add(stream.node, node)
    return behind(stream, node, stream.key, stream.value)


def join_streams(
    left: StreamHandle,
    right: StreamHandle,
    joiner: Joiner,
    window: JoinWindow,
    *,
    keeps_left: bool,
    keeps_right: bool,
    value: Serde,
    store: str | None,
    name: str | None,
) -> StreamHandle:
    """Join two streams within a window."""
    if left.is_rekeyed:
        left = _for_join(left, left.name if name is None else f"{name}-left")
    if right.is_rekeyed:
        right = _for_join(right, right.name if name is None else f"{name}-right")
    graph = left.plan.graph
    graph.copartition(set(left.sources | right.sources))
    node = _StreamJoinGraph(left, right, joiner, window, keeps_left, keeps_right, store, name)
    graph.add(left.node, node.windowed[0])
    graph.add(right.node, node.windowed[1])
    parents = list(dict.fromkeys([left.node, right.node]))
    graph.add_to_all(parents if len(parents) == 1 else [left.node, right.node], node)
    return replace(
        left,
        name=node.name,
        value=value,
        sources=left.sources | right.sources,
        is_rekeyed=False,
        node=node,
    )


class _WindowedGraph(ProcessorGraph):
    """Stores one side's records. The join adds the store."""

    def __init__(self, name: str, store_name: str) -> None:
        super().__init__(name, Simple(lambda: WindowedSide(store_name)))


class _StreamJoinGraph(GraphNode):
    """The two sides of a join, and what merges their results."""

    def __init__(
        self,
        left: StreamHandle,
        right: StreamHandle,
        joiner: Joiner,
        window: JoinWindow,
        keeps_left: bool,
        keeps_right: bool,
        base: str | None,
        name: str | None,
    ) -> None:
        graph = left.plan.graph
        left_suffix = "-outer-this-join" if keeps_right else "-this-join"
        right_suffix = "-outer-other-join" if keeps_left else "-other-join"
        windowed_left = graph.suffixed(name, "-this-windowed", "KSTREAM-WINDOWED-")
        windowed_right = graph.suffixed(name, "-other-windowed", "KSTREAM-WINDOWED-")
        left_prefix = "KSTREAM-OUTERTHIS-" if keeps_right else "KSTREAM-JOINTHIS-"
        left_generated = graph.new_name(left_prefix)
        right_generated = graph.new_name(
            "KSTREAM-OUTEROTHER-" if keeps_left else "KSTREAM-JOINOTHER-"
        )
        self._left_name = left_generated if name is None else name + left_suffix
        self._right_name = right_generated if name is None else name + right_suffix
        super().__init__(graph.suffixed(name, "-merge", "KSTREAM-MERGE-"))
        self.relaxes_null_keys = keeps_left or keeps_right
        left_store = (left_generated if base is None else base + left_suffix) + "-store"
        right_store = (right_generated if base is None else base + right_suffix) + "-store"
        unmatched: str | None = None
        if keeps_left:
            shared = "-outer-shared-join" if keeps_right else "-left-shared-join"
            number = left_generated.removeprefix(left_prefix)
            unmatched = f"KSTREAM-OUTERSHARED-{number}" if base is None else base + shared
            unmatched += "-store"
        self._join = JoinDefinition(
            window,
            joiner,
            left_store=left_store,
            right_store=right_store,
            unmatched=unmatched,
            keeps_left=keeps_left,
            keeps_right=keeps_right,
            key=left.key,
            left=left.value,
            right=right.value,
        )
        self._in_memory = left.plan.in_memory
        self.windowed = (
            _WindowedGraph(windowed_left, left_store),
            _WindowedGraph(windowed_right, right_store),
        )

    def write(self, topology: Topology) -> None:
        """Add both sides, what merges them, and the stores."""
        join = self._join
        left, right = self.windowed[0].name, self.windowed[1].name
        for name, parent, is_left in (
            (self._left_name, left, True),
            (self._right_name, right, False),
        ):
            topology.add_processor(
                ProcessorDefinition(
                    name=name, parents=[parent], definition=StreamJoinSide(join, is_left)
                )
            )
        topology.add_processor(
            ProcessorDefinition(
                name=self.name,
                parents=[self._left_name, self._right_name],
                definition=Simple(PassThrough),
            )
        )
        topology.add_store(self._store(join.left_store, join.left), left, self._right_name)
        topology.add_store(self._store(join.right_store, join.right), right, self._left_name)
        if join.unmatched is not None:
            unmatched = StoreDefinition(
                name=join.unmatched,
                kind=Kind.LIST,
                key=join.key,
                value=join.left,
                other_value=join.right,
            )
            topology.add_store(unmatched, self._left_name, self._right_name)

    def _store(self, name: str, value: Serde) -> StoreDefinition:
        window = self._join.window
        return StoreDefinition(
            name=name,
            kind=Kind.WINDOW,
            key=self._join.key,
            value=value,
            retains_duplicates=True,
            is_timestamped=False,
            retention_ms=window.size_ms + window.grace_ms,
            window_size_ms=window.size_ms,
            in_memory=self._in_memory,
        )


def join_table(
    stream: StreamHandle,
    table: TableHandle,
    joiner: Joiner,
    *,
    keeps_stream: bool,
    value: Serde,
    grace_ms: int | None,
    name: str | None,
) -> StreamHandle:
    """Join a stream with a table."""
    if stream.is_rekeyed:
        stream = _for_join(stream, stream.name if name is None else name)
    graph = stream.plan.graph
    sources = stream.sources | table.sources
    graph.copartition(set(sources))
    node_name = graph.name(name, "KSTREAM-LEFTJOIN-" if keeps_stream else "KSTREAM-JOIN-")
    buffer: StoreDefinition | None = None
    if grace_ms is not None:
        if table.node.output_is_versioned is False:
            raise TopologyError("a table must be versioned for a join with a grace period")
        buffer = StoreDefinition(
            name=f"{node_name}-Buffer",
            kind=Kind.JOIN_BUFFER,
            key=stream.key,
            value=stream.value,
            retention_ms=grace_ms,
        )
    view = table.definition.view()
    definition = LookupJoin(
        view, None, joiner, keeps_stream, None if buffer is None else buffer.name
    )
    node = ProcessorGraph(
        node_name,
        definition,
        store_names=view.store_names(),
        own_stores=[] if buffer is None else [buffer],
        relaxes_null_keys=keeps_stream,
    )
    graph.add(stream.node, node)
    return replace(
        stream, name=node_name, value=value, sources=sources, is_rekeyed=False, node=node
    )


def join_global(
    stream: StreamHandle,
    table: GlobalHandle,
    mapper: Callable[[Any, Any], Any],
    joiner: Joiner,
    *,
    keeps_stream: bool,
    value: Serde,
    name: str | None,
) -> StreamHandle:
    """Join a stream with a global table."""
    graph = stream.plan.graph
    node_name = graph.name(name, "KSTREAM-LEFTJOIN-")
    view = table.definition.view()
    node = ProcessorGraph(
        node_name,
        LookupJoin(view, mapper, joiner, keeps_stream, None),
        relaxes_null_keys=keeps_stream,
    )
    graph.add(stream.node, node)
    return replace(stream, name=node_name, value=value, node=node)


def join_tables(
    left: TableHandle,
    right: TableHandle,
    joiner: Joiner,
    *,
    keeps_left: bool,
    keeps_right: bool,
    value: Serde,
    store: Store | None,
    name: str | None,
) -> TableHandle:
    """Join two tables by their keys."""
    graph = left.plan.graph
    store_name: str | None = None
    if store is not None:
        store_name = store.name or graph.new_store_name("KTABLE-MERGE-")
    merge_name = graph.name(name, "KTABLE-MERGE-")
    sources = left.sources | right.sources
    graph.copartition(set(sources))
    if keeps_left:
        left.enable_old(True)
    if keeps_right:
        right.enable_old(True)

    def enable_old() -> None:
        left.enable_old(True)
        right.enable_old(True)

    join = TableJoin(
        left.definition.view(),
        right.definition.view(),
        enable_old,
        joiner,
        keeps_left,
        keeps_right,
    )
    this, other = TableJoinSide(join, True), TableJoinSide(join, False)
    this_name = graph.suffixed(name, "-join-this", "KTABLE-JOINTHIS-")
    other_name = graph.suffixed(name, "-join-other", "KTABLE-JOINOTHER-")
    merger = TableJoinMerger(this, other, store_name)
    stored = None
    if store is not None and store_name is not None:
        stored = key_value_store(store_name, store, left.key, value, left.plan.in_memory)
    node = _TableJoinGraph(
        merge_name,
        merger,
        sides=((this_name, left.name, this), (other_name, right.name, other)),
        join=join,
        store=stored,
    )
    node.set_versioned(store is not None and store.history is not None)
    for table in (left, right):
        graph.add(table.node, node)
    graph.check_later(lambda: node.use_versions(left.node, right.node))
    return TableHandle(
        plan=left.plan,
        name=merge_name,
        key=left.key,
        value=value,
        sources=sources,
        node=node,
        definition=merger,
        store_name=store_name,
    )


class _TableJoinGraph(GraphNode):
    """The two sides of a join, and what merges their changes."""

    def __init__(
        self,
        name: str,
        merger: TableJoinMerger,
        *,
        sides: tuple[tuple[str, str, TableJoinSide], tuple[str, str, TableJoinSide]],
        join: TableJoin,
        store: StoreDefinition | None,
    ) -> None:
        super().__init__(name)
        self._merger = merger
        self._sides = sides
        self._join = join
        self._store = store

    def use_versions(self, left: GraphNode, right: GraphNode) -> None:
        """Tell the sides whether their tables are versioned."""
        for (_, _, side), parent in zip(self._sides, (left, right), strict=True):
            if is_versioned(parent):
                side.use_versions()

    def write(self, topology: Topology) -> None:
        """Add both sides, what merges them, and the store."""
        for name, parent, side in self._sides:
            topology.add_processor(
                ProcessorDefinition(name=name, parents=[parent], definition=side)
            )
        names = [name for name, _, _ in self._sides]
        topology.add_processor(
            ProcessorDefinition(name=self.name, parents=names, definition=self._merger)
        )
        topology.connect(names[0], *self._join.right.store_names())
        topology.connect(names[1], *self._join.left.store_names())
        if self._store is not None:
            topology.add_store(self._store, self.name)
