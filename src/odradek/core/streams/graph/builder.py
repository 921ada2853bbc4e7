"""Collects what a program declares, and builds the topology.

Names are numbered by one counter, in the order of the calls, as in Kafka Streams: a number is used
even if the name is not. So an application of Kafka Streams that declares the same has the same topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from odradek.core.streams.graph.nodes import (
    GraphNode,
    ProcessorGraph,
    RepartitionGraph,
    Root,
    SourceGraph,
    TableSourceGraph,
)
from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.topology.definition import Topology

REUSE_SOURCE_TOPICS = "reuse.ktable.source.topics"
MERGE_REPARTITION_TOPICS = "merge.repartition.topics"
OPTIMIZATIONS = frozenset({REUSE_SOURCE_TOPICS, MERGE_REPARTITION_TOPICS})


class GraphBuilder:
    """The logical graph of a program."""

    def __init__(self) -> None:
        self.root = Root("root")
        self._next_number = 0
        self._next_priority = 0
        self._copartitions: list[set[str]] = []
        self._internal_topics: dict[str, int | None] = {}
        self._key_changing: dict[GraphNode, dict[RepartitionGraph, None]] = {}
        self._merges: list[GraphNode] = []
        self._table_sources: list[TableSourceGraph] = []
        self._checks: list[Callable[[], None]] = []
        self._replaced: list[tuple[str, str]] = []

    def number(self) -> str:
        """Return the next number as ten digits."""
        number = self._next_number
        self._next_number += 1
        return f"{number:010d}"

    def new_name(self, prefix: str) -> str:
        """Return a name for a node."""
        return prefix + self.number()

    def new_store_name(self, prefix: str) -> str:
        """Return a name for a store."""
        return f"{prefix}STATE-STORE-{self.number()}"

    def name(self, given: str | None, prefix: str) -> str:
        """Return the given name, or a new one. The number is used in both cases."""
        generated = self.new_name(prefix)
        return given if given is not None else generated

    def suffixed(self, given: str | None, suffix: str, prefix: str) -> str:
        """Return the given name with a suffix, or a new name. The number is used in both cases."""
        generated = self.new_name(prefix)
        return given + suffix if given is not None else generated

    def add(self, parent: GraphNode, node: GraphNode) -> None:
        """Add a node behind another."""
        parent.add_child(node)
        node.set_priority(self._next_priority)
        self._next_priority += 1
        if node.is_key_changing:
            self._key_changing[node] = {}
        elif isinstance(node, RepartitionGraph) and node.can_merge:
            changer = self._changer_before(node)
            if changer is not None:
                self._key_changing[changer][node] = None
        elif node.is_merge:
            self._merges.append(node)
        elif isinstance(node, TableSourceGraph):
            self._table_sources.append(node)

    def add_to_all(self, parents: Iterable[GraphNode], node: GraphNode) -> None:
        """Add a node behind others."""
        for parent in parents:
            self.add(parent, node)

    def copartition(self, sources: set[str]) -> None:
        """Note that the topics of sources need the same number of partitions."""
        self._copartitions.append(sources)

    def add_internal_topic(self, topic: str) -> None:
        """Note that a topic is internal."""
        self._internal_topics[topic] = None

    def check_later(self, check: Callable[[], None]) -> None:
        """Call a function before the topology is built."""
        self._checks.append(check)

    def build(self, application_id: str, optimizations: frozenset[str]) -> Topology:
        """Return the topology. A builder builds once.

        Raises:
            TopologyError: it cannot work.
        """
        topology = Topology(application_id)
        self._merge_sources()
        if REUSE_SOURCE_TOPICS in optimizations:
            for source in self._table_sources:
                source.reuse_topic()
        if MERGE_REPARTITION_TOPICS in optimizations:
            self._merge_repartitions()
        self._drop_null_keys()
        for check in self._checks:
            check()
        for topic, partitions in self._internal_topics.items():
            topology.add_internal_topic(topic, partitions)
        self._write(topology)
        for sources in self._copartitions:
            topology.copartition(sources)
        for replaced, node in self._replaced:
            topology.replace_copartition(replaced, node)
        return topology

    def _write(self, topology: Topology) -> None:
        """Write the nodes in the order of their priorities, parents first."""
        heap: list[tuple[int, int, GraphNode]] = [(-1, 0, self.root)]
        count = 0
        while heap:
            node = heappop(heap)[2]
            node.write_once(topology)
            for child in node.children:
                if not child.is_written:
                    count += 1
                    heappush(heap, (child.priority, count, child))

    def _merge_sources(self) -> None:
        """Read each topic once. Sources of the same topics become one."""
        by_topic: dict[str, SourceGraph] = {}
        by_pattern: dict[str, SourceGraph] = {}
        for node in self.root.children:
            if not isinstance(node, SourceGraph):
                continue
            if node.pattern is not None:
                first = by_pattern.setdefault(node.pattern, node)
                if first is not node:
                    first.merge(node)
                    self.root.remove_child(node)
                continue
            for topic in node.topics:
                first = by_topic.setdefault(topic, node)
                if first is node:
                    continue
                if set(first.topics) != set(node.topics):
                    raise TopologyError(
                        "Two source nodes are subscribed to overlapping but not equal input topics:"
                        f" {', '.join(first.topics)} and {', '.join(node.topics)}"
                    )
                first.merge(node)
                self.root.remove_child(node)

    def _drop_null_keys(self) -> None:
        """Drop records without key before repartition topics, unless a left or outer join follows."""
        needed: set[GraphNode] = set()
        visited: list[GraphNode] = []

        def visit(node: GraphNode) -> None:
            if node in seen:
                return
            for child in node.children:
                visit(child)
                if child.relaxes_null_keys or child in needed:
                    needed.add(node)
            seen.add(node)
            visited.append(node)

        seen: set[GraphNode] = set()
        visit(self.root)
        for node in visited:
            if isinstance(node, RepartitionGraph) and node.can_drop and node not in needed:
                node.drop_null_keys()

    def _changer_before(self, node: GraphNode) -> GraphNode | None:
        """Return the operator that changed the key, if none behind it has changed the value."""
        either = _parent_with(node, lambda each: each.is_key_changing or each.is_value_changing)
        changer = _parent_with(node, lambda each: each.is_key_changing)
        return changer if either is not None and either is changer else None

    def _merge_repartitions(self) -> None:
        """Let the repartition topics behind one operator be one topic."""
        self._move_to_merges()
        for changer, topics in list(self._key_changing.items()):
            if not topics:
                continue
            first = next(iter(topics))
            merged = self._merged(first.topic, topics)
            merged.set_priority(changer.priority)
            for topic in topics:
                child = _parent_with(topic, _is_behind(changer))
                assert child is not None
                merged.add_child(child)
                changer.remove_child(child)
                parents = topic.parents
                for behind in topic.children:
                    for parent in parents:
                        parent.add_child(behind)
                for parent in parents:
                    parent.remove_child(topic)
                topic.clear_children()
                self._replaced.append((topic.name, merged.name))
            changer.add_child(merged)
            del self._key_changing[changer]

    def _merged(self, topic: str, topics: Iterable[RepartitionGraph]) -> RepartitionGraph:
        first = next(iter(topics))
        return make_repartition(self, topic, first)

    def _move_to_merges(self) -> None:
        """Treat merged streams with changed keys as operators that change keys."""
        found: dict[GraphNode, list[GraphNode]] = {}
        removed: list[GraphNode] = []
        for merge in self._merges:
            found[merge] = []
            for changer, topics in self._key_changing.items():
                if not all(_parent_with(topic, _is_behind(merge)) for topic in topics):
                    continue
                if _parent_with(merge, _is_behind(changer)):
                    found[merge].append(changer)
        for merge, changers in found.items():
            all_topics: dict[RepartitionGraph, None] = {}
            for changer in changers:
                all_topics.update(self._key_changing[changer])
                removed.append(changer)
            self._key_changing[merge] = all_topics
        for changer in removed:
            self._key_changing.pop(changer, None)


def make_repartition(
    builder: GraphBuilder, prefix: str, like: RepartitionGraph
) -> RepartitionGraph:
    """Return a repartition node with the types of another."""
    names = repartition_names(builder, prefix)
    return RepartitionGraph(
        topic=names[0],
        sink_name=names[1],
        filter_name=names[2],
        source_name=names[3],
        key=like.key,
        value=like.value,
    )


def repartition_names(builder: GraphBuilder, prefix: str) -> tuple[str, str, str, str]:
    """Return the names of a repartition topic, and of its sink, filter and source."""
    topic = prefix if prefix.endswith("-repartition") else f"{prefix}-repartition"
    sink = builder.new_name("KSTREAM-SINK-")
    null_filter = builder.new_name("KSTREAM-FILTER-")
    source = builder.new_name("KSTREAM-SOURCE-")
    if is_generated(prefix):
        return topic, sink, null_filter, source
    return topic, f"{topic}-sink", f"{topic}-filter", f"{topic}-source"


def is_generated(name: str) -> bool:
    """Return whether Kafka Streams would take a name for a generated one of a stream."""
    return (
        name.startswith("KSTREAM")
        and len(name) >= 18
        and name[-11] == "-"
        and name[-10:].isascii()
        and name[-10:].isdigit()
    )


def _is_behind(parent: GraphNode) -> Callable[[GraphNode], bool]:
    """Return a function that says whether a node is a child of `parent`."""
    return lambda node: parent in node.parents


def _parent_with(node: GraphNode, matches: Callable[[GraphNode], bool]) -> GraphNode | None:
    """Return the node or the first one before it that matches, searched as Kafka Streams does."""
    if matches(node):
        return node
    found: GraphNode | None = None
    for parent in node.parents:
        if matches(parent):
            return parent
        found = _parent_with(parent, matches)
    return found


def window_delay_ms(node: GraphNode, chain: str = "") -> int:
    """Return how long after its end a window closes, of the aggregation before a node.

    Raises:
        TopologyError: there is no aggregation over windows.
    """
    delay = node.window_delay_ms() if isinstance(node, ProcessorGraph) else None
    if delay is not None:
        return delay
    chain = f"{node.name}->{chain}" if chain else node.name
    if not node.parents:
        raise TopologyError(
            f"Window close time is only defined for windowed computations. Got [{chain}]."
        )
    return max(window_delay_ms(parent, chain) for parent in node.parents)
