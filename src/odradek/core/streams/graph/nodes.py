"""Nodes of the logical graph. Each writes one or several nodes of the topology."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.model.serdes import BYTES, ChangeSerde, Serde
from odradek.core.streams.processors.base import Definition, Simple
from odradek.core.streams.processors.stateless import Filter
from odradek.core.streams.processors.tables import TableSource
from odradek.core.streams.processors.windowed import WindowedTable
from odradek.core.streams.stores.definition import StoreDefinition
from odradek.core.streams.topology.definition import (
    Partitioner,
    ProcessorDefinition,
    SinkDefinition,
    SourceDefinition,
    TimestampExtractor,
    TopicChooser,
    Topology,
)


@dataclass(slots=True, kw_only=True)
class Consumed:
    """How topics are read."""

    key: Serde = BYTES
    value: Serde = BYTES
    timestamp: TimestampExtractor | None = None
    reset: str | None = None


class GraphNode:
    """A node of the logical graph. Children and parents are in the order in which they were added."""

    is_key_changing = False
    is_value_changing = False
    is_merge = False
    relaxes_null_keys = False
    """Left and outer joins also need the records without key, so these pass repartition topics."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.priority = 0
        self.is_written = False
        self.output_is_versioned: bool | None = None
        self._children: dict[GraphNode, None] = {}
        self._parents: dict[GraphNode, None] = {}

    @property
    def children(self) -> list[GraphNode]:
        """Return the children."""
        return list(self._children)

    @property
    def parents(self) -> list[GraphNode]:
        """Return the parents."""
        return list(self._parents)

    def parent_names(self) -> list[str]:
        """Return the names of the parents."""
        return [parent.name for parent in self._parents]

    def add_child(self, child: GraphNode) -> None:
        """Add an edge."""
        self._children[child] = None
        child._parents[self] = None

    def remove_child(self, child: GraphNode) -> None:
        """Remove an edge."""
        self._children.pop(child, None)
        child._parents.pop(self, None)

    def clear_children(self) -> None:
        """Remove the edges to all children."""
        for child in self.children:
            self.remove_child(child)

    def set_priority(self, priority: int) -> None:
        """Set the place in the order in which nodes are written."""
        self.priority = priority

    def set_versioned(self, is_versioned: bool) -> None:
        """Say whether the output is a versioned table."""
        self.output_is_versioned = is_versioned

    def write_once(self, topology: Topology) -> None:
        """Write the node if all parents are written."""
        if not self.is_written and all(parent.is_written for parent in self._parents):
            self.write(topology)
            self.is_written = True

    def write(self, topology: Topology) -> None:
        """Add the nodes and stores to the topology."""
        raise NotImplementedError


class Root(GraphNode):
    """The parent of all sources."""

    def write(self, topology: Topology) -> None:
        """Add nothing."""


class SourceGraph(GraphNode):
    """Reads topics as a stream."""

    def __init__(
        self, name: str, topics: Iterable[str], pattern: str | None, consumed: Consumed
    ) -> None:
        super().__init__(name)
        self.topics = list(topics)
        self.pattern = pattern
        self.consumed = consumed

    def merge(self, other: SourceGraph) -> None:
        """Take the children of a source of the same topics."""
        if self.consumed.reset != other.consumed.reset:
            raise TopologyError(
                "Can't configure different offset reset policies on the same input topic(s): "
                + ", ".join(self.topics)
            )
        for child in other.children:
            other.remove_child(child)
            self.add_child(child)

    def write(self, topology: Topology) -> None:
        """Add the source."""
        consumed = self.consumed
        topology.add_source(
            SourceDefinition(
                name=self.name,
                topics=self.topics,
                pattern=self.pattern,
                key=consumed.key,
                value=consumed.value,
                timestamp=consumed.timestamp,
                reset=consumed.reset,
            )
        )


class TableSourceGraph(GraphNode):
    """Reads a topic as a table."""

    def __init__(
        self,
        name: str,
        source_name: str,
        topic: str,
        consumed: Consumed,
        store: StoreDefinition,
        table: TableSource,
        is_global: bool = False,
    ) -> None:
        super().__init__(name)
        self._source_name = source_name
        self._topic = topic
        self._consumed = consumed
        self._store = store
        self._table = table
        self._is_global = is_global
        self._reuses_topic = False

    def reuse_topic(self) -> None:
        """Use the topic as changelog."""
        self._reuses_topic = True

    def write(self, topology: Topology) -> None:
        """Add the source, the processor, and the store if it is needed."""
        consumed = self._consumed
        source = SourceDefinition(
            name=self._source_name,
            topics=[self._topic],
            key=consumed.key,
            value=consumed.value,
            timestamp=consumed.timestamp,
            reset=consumed.reset,
        )
        processor = ProcessorDefinition(
            name=self.name, parents=[self._source_name], definition=self._table
        )
        if self._is_global:
            topology.add_global(self._store, source, processor)
            return
        topology.add_source(source)
        topology.add_processor(processor)
        if self._table.is_materialized:
            topology.add_store(self._store, self.name)
            if self._reuses_topic:
                topology.reuse_source(self._store.name, self._topic)


class ProcessorGraph(GraphNode):
    """One processor, with a store of its own, or with stores of others."""

    def __init__(
        self,
        name: str,
        definition: Definition,
        *,
        store: StoreDefinition | None = None,
        store_names: Iterable[str] = (),
        own_stores: Iterable[StoreDefinition] = (),
        changes_key: bool = False,
        changes_value: bool = False,
        merges: bool = False,
        relaxes_null_keys: bool = False,
    ) -> None:
        super().__init__(name)
        self.definition = definition
        self._store = store
        self._store_names = list(store_names)
        self._own_stores = list(own_stores)
        self.is_key_changing = changes_key
        self.is_value_changing = changes_value
        self.is_merge = merges
        self.relaxes_null_keys = relaxes_null_keys

    def write(self, topology: Topology) -> None:
        """Add the processor and its stores."""
        topology.add_processor(
            ProcessorDefinition(
                name=self.name, parents=self.parent_names(), definition=self.definition
            )
        )
        for store in self._own_stores:
            topology.add_store(store, self.name)
        topology.connect(self.name, *self._store_names)
        definition = self.definition
        needs_store = not isinstance(definition, TableSource) or definition.is_materialized
        if self._store is not None and needs_store:
            topology.add_store(self._store, self.name)

    def window_delay_ms(self) -> int | None:
        """Return how long after its end a window of this aggregation closes."""
        if isinstance(self.definition, WindowedTable):
            return self.definition.close_delay_ms
        return None


class StoreGraph(GraphNode):
    """A store that the program has added."""

    def __init__(self, store: StoreDefinition) -> None:
        super().__init__(store.name)
        self._store = store

    def write(self, topology: Topology) -> None:
        """Add the store."""
        topology.add_store(self._store)


class SinkGraph(GraphNode):
    """Writes to a topic."""

    def __init__(
        self,
        name: str,
        topic: str | None,
        chooser: TopicChooser | None,
        key: Serde,
        value: Serde,
        partitioner: Partitioner | None,
    ) -> None:
        super().__init__(name)
        self._topic = topic
        self._chooser = chooser
        self._key = key
        self._value = value
        self._partitioner = partitioner

    def write(self, topology: Topology) -> None:
        """Add the sink."""
        topology.add_sink(
            SinkDefinition(
                name=self.name,
                parents=self.parent_names(),
                topic=self._topic,
                chooser=self._chooser,
                key=self._key,
                value=self._value,
                partitioner=self._partitioner,
            )
        )


def _anything(_key: Any, _value: Any) -> bool:
    return True


def _has_key(key: Any, _value: Any) -> bool:
    return key is not None


class RepartitionGraph(GraphNode):
    """Sends records through a topic, so that those with the same key are in the same partition."""

    def __init__(
        self,
        *,
        topic: str,
        sink_name: str,
        filter_name: str | None,
        source_name: str,
        key: Serde,
        value: Serde,
        partitioner: Partitioner | None = None,
        partitions: int | None = None,
        can_merge: bool = True,
    ) -> None:
        super().__init__(source_name)
        self.topic = topic
        self.key = key
        self.value = value
        self.can_merge = can_merge
        self._sink_name = sink_name
        self._filter_name = filter_name
        self._partitioner = partitioner
        self._partitions = partitions
        self._drops_null_keys = False

    def drop_null_keys(self) -> None:
        """Drop records without key before the topic: nobody behind it needs them."""
        self._drops_null_keys = True

    @property
    def can_drop(self) -> bool:
        """Return whether records without key may be dropped (not those of tables)."""
        return self._filter_name is not None

    def write(self, topology: Topology) -> None:
        """Add the filter, the sink and the source."""
        topology.add_internal_topic(self.topic, self._partitions)
        parents = self.parent_names()
        value = self.value
        if self._filter_name is not None:
            predicate = _has_key if self._drops_null_keys else _anything
            topology.add_processor(
                ProcessorDefinition(
                    name=self._filter_name,
                    parents=parents,
                    definition=Simple(lambda: Filter(predicate)),
                )
            )
            parents = [self._filter_name]
        else:
            value = ChangeSerde(value)
        topology.add_sink(
            SinkDefinition(
                name=self._sink_name,
                parents=parents,
                topic=self.topic,
                key=self.key,
                value=value,
                partitioner=self._partitioner,
            )
        )
        topology.add_source(
            SourceDefinition(
                name=self.name, topics=[self.topic], key=self.key, value=value, is_internal=True
            )
        )
