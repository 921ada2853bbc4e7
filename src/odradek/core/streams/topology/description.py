"""The text of a topology, as Kafka Streams' `Topology.describe()` prints it."""

from __future__ import annotations

from odradek.core.streams.model.java_order import hash_order
from odradek.core.streams.topology.definition import (
    NodeDefinition,
    ProcessorDefinition,
    SinkDefinition,
    SourceDefinition,
    Topology,
)


class _Described:
    """A node with its neighbours. Nodes are ordered by how many are behind them, then by name."""

    def __init__(self, node: NodeDefinition) -> None:
        self.node = node
        self.size = 1
        self.before = _Tree()
        self.after = _Tree()

    def comes_before(self, other: _Described) -> bool:
        """Return whether this node is listed first."""
        if self.size != other.size:
            return self.size > other.size
        return self.node.name < other.node.name

    def grow(self, size: int) -> None:
        """Note that there are more nodes behind this one and those before it."""
        self.size += size
        for parent in self.before.nodes():
            parent.grow(size)


class _Tree:
    """An ordered set to which nodes are added while their order still changes, as in Java.

    Their order is fixed by the comparisons at the time when each was added. This is Java's TreeMap
    without its rotations, which move nodes but do not change their order.
    """

    def __init__(self) -> None:
        self._left: _Tree | None = None
        self._right: _Tree | None = None
        self._node: _Described | None = None

    def add(self, node: _Described) -> None:
        """Add a node that is not in the set."""
        place = self
        while place._node is not None:
            if place._node is node:
                return
            if node.comes_before(place._node):
                place._left = place._left or _Tree()
                place = place._left
            else:
                place._right = place._right or _Tree()
                place = place._right
        place._node = node

    def nodes(self) -> list[_Described]:
        """Return the nodes in order."""
        if self._node is None:
            return []
        left = self._left.nodes() if self._left else []
        right = self._right.nodes() if self._right else []
        return [*left, self._node, *right]


def describe(topology: Topology) -> str:
    """Return the text of a topology."""
    parts = ["Topologies:\n "]
    for number, names in enumerate(topology.groups()):
        if topology.is_global(names):
            parts.append("  " + _global(topology, number, names))
        else:
            parts.append("  " + _subtopology(topology, number, names))
    return "".join(parts)


def _subtopology(topology: Topology, number: int, names: list[str]) -> str:
    nodes = {name: _Described(topology.nodes[name]) for name in hash_order(names)}
    for described in nodes.values():
        for name in described.node.parents:
            parent = nodes[name]
            described.before.add(parent)
            parent.after.add(described)
            parent.grow(described.size)
    ordered = sorted(nodes.values(), key=lambda each: (-each.size, each.node.name))
    lines = "".join(f"    {_node(each)}\n" for each in ordered)
    return f"Sub-topology: {number}\n{lines}\n"


def _global(topology: Topology, number: int, names: list[str]) -> str:
    source = next(name for name in names if name in topology.global_sources)
    processor = topology.global_sources[source]
    first, second = topology.nodes[source], topology.nodes[processor]
    one, two = _Described(first), _Described(second)
    one.after.add(two)
    two.before.add(one)
    return (
        f"Sub-topology: {number} for global store (will not generate tasks)\n"
        f"    {_node(one)}\n    {_node(two)}\n"
    )


def _node(described: _Described) -> str:
    node = described.node
    after = ", ".join(each.node.name for each in described.after.nodes()) or "none"
    before = ", ".join(each.node.name for each in described.before.nodes()) or "none"
    if isinstance(node, SourceDefinition):
        topics = node.pattern if node.pattern is not None else _list(node.topics)
        return f"Source: {node.name} (topics: {topics})\n      --> {after}"
    if isinstance(node, ProcessorDefinition):
        return (
            f"Processor: {node.name} (stores: {_list(node.stores)})\n"
            f"      --> {after}\n      <-- {before}"
        )
    assert isinstance(node, SinkDefinition)
    where = f"topic: {node.topic}" if node.topic is not None else "extractor class: function"
    return f"Sink: {node.name} ({where})\n      <-- {before}"


def _list(names: list[str]) -> str:
    return f"[{', '.join(hash_order(names))}]"
