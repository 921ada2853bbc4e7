"""What streams and tables are while the program declares them."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.core.streams.graph.builder import GraphBuilder
from odradek.core.streams.graph.nodes import GraphNode, RepartitionGraph
from odradek.core.streams.model.serdes import Serde
from odradek.core.streams.processors.base import TableDefinition
from odradek.core.streams.processors.tables import TableSource


class Plan:
    """The graph of an application, and its defaults."""

    def __init__(self, key: Serde, value: Serde, in_memory: bool) -> None:
        self.graph = GraphBuilder()
        self.key = key
        self.value = value
        self.in_memory = in_memory
        self.join_topics: dict[GraphNode, RepartitionGraph] = {}
        """The repartition topics for joins, by the operator whose output goes through them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHandle:
    """A stream: the node that makes it, its types, the sources before it, and whether its key has
    changed since them, so that it must go through a topic before it is grouped or joined."""

    plan: Plan
    name: str
    key: Serde
    value: Serde
    sources: frozenset[str]
    is_rekeyed: bool
    node: GraphNode


class TableHandle:
    """A table: the node that makes it, its types and the sources before it."""

    def __init__(
        self,
        *,
        plan: Plan,
        name: str,
        key: Serde,
        value: Serde,
        sources: frozenset[str],
        node: GraphNode,
        definition: TableDefinition,
        store_name: str | None,
    ) -> None:
        self.plan = plan
        self.name = name
        self.key = key
        self.value = value
        self.sources = sources
        self.node = node
        self.definition = definition
        self.store_name = store_name
        """The store that the program named; None if it named none."""
        self._sends_old = False

    def enable_old(self, force: bool) -> bool:
        """Let the table's changes have old values. Returns whether they have."""
        if not self._sends_old:
            if not self.definition.enable_old(force):
                return False
            self._sends_old = True
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedHandle:
    """A grouped stream."""

    stream: StreamHandle
    topic: str | None
    """The name that the program gave to the repartition topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalHandle:
    """A global table."""

    plan: Plan
    key: Serde
    value: Serde
    definition: TableSource
