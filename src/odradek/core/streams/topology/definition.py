"""A topology as data: nodes, stores and topics, and how they form subtopologies.

Nodes that forward to each other or share a store are in one subtopology. Each subtopology is executed
by one task for each partition of its source topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.model.java_order import hash_order
from odradek.core.streams.model.records import RecordContext
from odradek.core.streams.model.serdes import BYTES, Serde
from odradek.core.streams.processors.base import Definition
from odradek.core.streams.stores.definition import Kind, StoreDefinition

TimestampExtractor = Callable[[Any, Any, RecordContext, int], int]
"""Gets the key, the value, where the record comes from with its own time, and the partition's time so
far. Returns the time; a negative one drops the record."""
Partitioner = Callable[[str, Any, Any, int], int | None]
"""Gets the topic, the key, the value and the number of partitions. None: by the key."""
TopicChooser = Callable[[Any, Any, RecordContext], str]


@dataclass(slots=True, kw_only=True)
class NodeDefinition:
    """A node of the topology."""

    name: str
    parents: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class SourceDefinition(NodeDefinition):
    """Reads topics. Exactly one of `topics` and `pattern` is set."""

    topics: list[str] = field(default_factory=list)
    pattern: str | None = None
    key: Serde = BYTES
    value: Serde = BYTES
    timestamp: TimestampExtractor | None = None
    reset: str | None = None
    """Where to begin without a committed offset: "earliest", "latest", or as configured."""
    is_internal: bool = False


@dataclass(slots=True, kw_only=True)
class ProcessorDefinition(NodeDefinition):
    """Processes records."""

    definition: Definition
    stores: list[str] = field(default_factory=list)

    def use(self, store: str) -> None:
        """Give the node a store."""
        if store not in self.stores:
            self.stores.append(store)


@dataclass(slots=True, kw_only=True)
class SinkDefinition(NodeDefinition):
    """Writes records to a topic."""

    topic: str | None
    chooser: TopicChooser | None = None
    key: Serde = BYTES
    value: Serde = BYTES
    partitioner: Partitioner | None = None


@dataclass(slots=True, kw_only=True)
class Subtopology:
    """The nodes that one task executes. Internal topics have their full names."""

    number: int
    nodes: list[str]
    source_topics: list[str]
    repartition_sources: dict[str, int | None]
    """The repartition topics that are read, and their numbers of partitions if those are fixed."""
    sink_topics: list[str]
    changelogs: dict[str, StoreDefinition]
    """The changelog topics, and whose they are. A table's topic may be the changelog of its store."""


class Topology:
    """Nodes, stores and internal topics. `application_id` begins the names of internal topics."""

    def __init__(self, application_id: str) -> None:
        self.application_id = application_id
        self.nodes: dict[str, NodeDefinition] = {}
        self.stores: dict[str, StoreDefinition] = {}
        self.global_stores: dict[str, StoreDefinition] = {}
        self.global_sources: dict[str, str] = {}
        """The source nodes of global tables, and the names of their processors."""
        self.internal_topics: dict[str, int | None] = {}
        self.source_changelogs: dict[str, str] = {}
        """Stores whose changelog is the topic of their table."""
        self.copartitions: list[set[str]] = []
        self._roots: dict[str, str] = {}

    def add_source(self, node: SourceDefinition) -> None:
        """Add a source."""
        self._check_topics(node)
        self._add(node)

    def add_processor(self, node: ProcessorDefinition) -> None:
        """Add a processor."""
        self._add(node)

    def add_sink(self, node: SinkDefinition) -> None:
        """Add a sink."""
        self._add(node)

    def add_store(self, store: StoreDefinition, *processors: str) -> None:
        """Add a store that nodes use."""
        known = self.stores.get(store.name)
        if known is not None and known is not store:
            raise TopologyError(f"there are two stores with the name {store.name!r}")
        if store.name in self.global_stores:
            raise TopologyError(f"there is a global table with the store {store.name!r}")
        self.stores[store.name] = store
        for processor in processors:
            self.connect(processor, store.name)

    def connect(self, processor: str, *stores: str) -> None:
        """Let a node use stores.

        Raises:
            TopologyError: there is no such store.
        """
        node = self.nodes[processor]
        assert isinstance(node, ProcessorDefinition)
        for name in stores:
            if name in self.global_stores:
                continue
            store = self.stores.get(name)
            if store is None:
                raise TopologyError(f"{processor} uses the store {name!r}, which does not exist")
            for other in store.processors:
                self._unite(processor, other)
                break
            store.connect(processor)
            node.use(name)

    def add_global(
        self, store: StoreDefinition, source: SourceDefinition, processor: ProcessorDefinition
    ) -> None:
        """Add a global table: all its partitions are read before the tasks begin."""
        self._check_topics(source)
        self._add(source)
        self._add(processor)
        processor.use(store.name)
        self.global_stores[store.name] = store
        self.global_sources[source.name] = processor.name

    def add_internal_topic(self, name: str, partitions: int | None) -> None:
        """Note that a topic is a repartition topic. Its full name begins with the application's."""
        self.internal_topics[name] = partitions

    def reuse_source(self, store: str, topic: str) -> None:
        """Let the topic of a table be the changelog of its store."""
        self.stores[store].log_to_source()
        self.source_changelogs[store] = topic

    def copartition(self, sources: Iterable[str]) -> None:
        """Note that the topics of sources need the same number of partitions."""
        self.copartitions.append(set(sources))

    def replace_copartition(self, replaced: str, node: str) -> None:
        """Note that another source takes the place of one."""
        for group in self.copartitions:
            if replaced in group:
                group.remove(replaced)
                group.add(node)

    def full_name(self, topic: str) -> str:
        """Return the name of a topic on the broker."""
        if topic in self.internal_topics:
            return f"{self.application_id}-{topic}"
        return topic

    def changelog_of(self, store: StoreDefinition) -> str | None:
        """Return the topic that a store's changes are written to, if there is one."""
        if not store.is_logged or store.name in self.global_stores:
            return None
        return f"{self.application_id}-{store.name}-changelog"

    def groups(self) -> list[list[str]]:
        """Return the names of the nodes of each subtopology, also of global tables."""
        found: dict[str, list[str]] = {}
        for name in self.nodes:
            found.setdefault(self._root(name), []).append(name)
        return list(found.values())

    def is_global(self, names: list[str]) -> bool:
        """Return whether nodes maintain a global table."""
        return any(name in self.global_sources for name in names)

    def subtopologies(self) -> list[Subtopology]:
        """Return the subtopologies that tasks execute."""
        return [
            self._subtopology(number, names)
            for number, names in enumerate(self.groups())
            if not self.is_global(names)
        ]

    def store_names(self, names: list[str]) -> list[str]:
        """Return the stores of nodes in the order in which tasks open and flush them."""
        found: dict[str, None] = {}
        for name in names:
            node = self.nodes[name]
            if isinstance(node, ProcessorDefinition):
                for store in hash_order(node.stores):
                    found[store] = None
        return list(found)

    def _subtopology(self, number: int, names: list[str]) -> Subtopology:
        sources: dict[str, None] = {}
        repartitions: dict[str, int | None] = {}
        sinks: dict[str, None] = {}
        changelogs: dict[str, StoreDefinition] = {}
        for name in names:
            node = self.nodes[name]
            if isinstance(node, SourceDefinition):
                for topic in node.topics:
                    sources[self.full_name(topic)] = None
                    if topic in self.internal_topics:
                        repartitions[self.full_name(topic)] = self.internal_topics[topic]
            elif isinstance(node, SinkDefinition) and node.topic is not None:
                sinks[self.full_name(node.topic)] = None
        for store_name in self.store_names(names):
            store = self.stores[store_name]
            changelog = self.changelog_of(store) or self.source_changelogs.get(store_name)
            if changelog is not None:
                changelogs[changelog] = store
        return Subtopology(
            number=number,
            nodes=names,
            source_topics=list(sources),
            repartition_sources=repartitions,
            sink_topics=list(sinks),
            changelogs=changelogs,
        )

    def copartition_groups(self) -> list[set[str]]:
        """Return groups of topics that need the same number of partitions, with full names."""
        found: list[set[str]] = []
        for sources in self.copartitions:
            topics: set[str] = set()
            for name in sources:
                node = self.nodes.get(name)
                if isinstance(node, SourceDefinition):
                    topics.update(self.full_name(topic) for topic in node.topics)
            joined = [group for group in found if group & topics]
            for group in joined:
                topics |= group
                found.remove(group)
            if len(topics) > 1:
                found.append(topics)
        return found

    def _check_topics(self, node: SourceDefinition) -> None:
        for name, other in self.nodes.items():
            if isinstance(other, SourceDefinition):
                for topic in node.topics:
                    if topic in other.topics:
                        raise TopologyError(
                            f"Topic {topic} has already been registered by another source: {name}; "
                            "read it once, and use the stream or table twice"
                        )

    def _add(self, node: NodeDefinition) -> None:
        if node.name in self.nodes:
            raise TopologyError(f"there are two nodes with the name {node.name!r}")
        self.nodes[node.name] = node
        self._roots[node.name] = node.name
        for parent in node.parents:
            if parent not in self.nodes:
                raise TopologyError(f"{node.name} follows {parent}, which does not exist")
            self._unite(node.name, parent)

    def _root(self, name: str) -> str:
        while self._roots[name] != name:
            name = self._roots[name]
        return name

    def _unite(self, one: str, other: str) -> None:
        self._roots[self._root(one)] = self._root(other)


def is_windowed(store: StoreDefinition) -> bool:
    """Return whether old entries of a store expire."""
    return store.kind in (Kind.WINDOW, Kind.SESSION)
