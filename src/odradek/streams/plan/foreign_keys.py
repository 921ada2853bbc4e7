"""Joins of tables by a foreign key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.core.streams.graph.builder import GraphBuilder
from odradek.core.streams.graph.nodes import (
    Consumed,
    GraphNode,
    ProcessorGraph,
    SinkGraph,
    SourceGraph,
    StoreGraph,
)
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.serdes import BYTES, Serde
from odradek.core.streams.processors.foreign_keys import (
    AnswerNode,
    AnswerSerde,
    ForeignJoin,
    Part,
    ReceiveNode,
    ResolveNode,
    RightChangeNode,
    SubscribeNode,
    SubscriptionSerde,
)
from odradek.core.streams.processors.stream_joins import Joiner
from odradek.core.streams.processors.tables import TableSource
from odradek.core.streams.stores.definition import Kind, StoreDefinition
from odradek.streams.plan.handles import TableHandle
from odradek.streams.plan.materialized import Store, key_value_store
from odradek.streams.plan.tables import is_versioned

_PREFIX = "KTABLE-FK-JOIN-"
_PROCESSOR = _PREFIX + "SUBSCRIPTION-PROCESSOR-"
_REGISTRATION = _PREFIX + "SUBSCRIPTION-REGISTRATION-"


class _PartGraph(ProcessorGraph):
    """A processor of the join, which may be behind a versioned table."""

    def __init__(
        self,
        name: str,
        join: ForeignJoin,
        make: Callable[[ForeignJoin, bool], Node],
        stores: list[str],
    ) -> None:
        self._part = Part(join, make)
        super().__init__(name, self._part, store_names=stores)

    def use_versions(self) -> None:
        """Tell the processor whether the table before it is versioned."""
        if any(is_versioned(parent) for parent in self.parents):
            self._part.use_versions()


def join_foreign(
    left: TableHandle,
    right: TableHandle,
    extractor: Callable[[Any, Any], Any],
    joiner: Joiner,
    *,
    keeps_left: bool,
    value: Serde,
    store: Store,
    name: str | None,
) -> TableHandle:
    """Join the rows of `left` with the rows of `right` that have the extracted keys."""
    graph = left.plan.graph
    right.enable_old(True)
    left.enable_old(True)
    topic = graph.suffixed(name, "-subscription-registration", _REGISTRATION) + "-topic"
    graph.add_internal_topic(topic)
    send_name = graph.suffixed(name, "-subscription-registration-processor", _REGISTRATION)
    join = ForeignJoin(
        left=left.definition.view(),
        right=right.definition.view(),
        extractor=extractor,
        joiner=joiner,
        keeps_left=keeps_left,
        store="",
        key=left.key,
        foreign_key=right.key,
        value=left.value,
    )
    send = _PartGraph(send_name, join, SubscribeNode, [])
    graph.add(left.node, send)
    graph.check_later(send.use_versions)
    subscription = SubscriptionSerde(left.key)
    sink = SinkGraph(
        graph.suffixed(name, "-subscription-registration-sink", "KTABLE-SINK-"),
        topic,
        None,
        right.key,
        subscription,
        None,
    )
    graph.add(send, sink)
    source = SourceGraph(
        graph.suffixed(name, "-subscription-registration-source", "KTABLE-SOURCE-"),
        [topic],
        None,
        Consumed(key=right.key, value=subscription),
    )
    graph.add(sink, source)
    graph.copartition({*right.sources, source.name})
    store_name = _add_store(graph, subscription, name)
    join.use_store(store_name)
    answer, change = _answering(right, join, source, name)
    return _resolved(left, right, join, answer, change, value, store, name)


def _answering(
    right: TableHandle, join: ForeignJoin, source: GraphNode, name: str | None
) -> tuple[ProcessorGraph, ProcessorGraph]:
    """Add what answers subscriptions, at once and with each change of the right table."""
    graph = right.plan.graph
    receive = ProcessorGraph(
        graph.suffixed(name, "-subscription-receive", _PROCESSOR),
        Part(join, ReceiveNode),
        store_names=[join.store],
    )
    graph.add(source, receive)
    answer = ProcessorGraph(
        graph.suffixed(name, "-subscription-join-foreign", _PROCESSOR),
        Part(join, AnswerNode),
        store_names=join.right.store_names(),
    )
    graph.add(receive, answer)
    change = _PartGraph(
        graph.suffixed(name, "-foreign-join-subscription", _PROCESSOR),
        join,
        RightChangeNode,
        [join.store],
    )
    graph.add(right.node, change)
    graph.check_later(change.use_versions)
    return answer, change


def _add_store(graph: GraphBuilder, subscription: Serde, name: str | None) -> str:
    """Add the store of subscriptions. Return its name."""
    store_name = graph.suffixed(name, "-subscription-store", _PREFIX + "SUBSCRIPTION-STATE-STORE-")
    store = StoreDefinition(
        name=store_name,
        kind=Kind.TIMESTAMPED,
        key=BYTES,
        value=subscription,
        logs_headers=True,
    )
    graph.add(graph.root, StoreGraph(store))
    return store_name


def _resolved(
    left: TableHandle,
    right: TableHandle,
    join: ForeignJoin,
    answer: ProcessorGraph,
    change: ProcessorGraph,
    value: Serde,
    store: Store,
    name: str | None,
) -> TableHandle:
    """Add the way back to the left table, and the result."""
    graph = left.plan.graph
    topic = (
        graph.suffixed(name, "-subscription-response", _PREFIX + "SUBSCRIPTION-RESPONSE-")
        + "-topic"
    )
    graph.add_internal_topic(topic)
    answers = AnswerSerde(right.value)
    sink = SinkGraph(
        graph.suffixed(name, "-subscription-response-sink", "KTABLE-SINK-"),
        topic,
        None,
        left.key,
        answers,
        None,
    )
    graph.add_to_all([answer, change], sink)
    source = SourceGraph(
        graph.suffixed(name, "-subscription-response-source", "KTABLE-SOURCE-"),
        [topic],
        None,
        Consumed(key=left.key, value=answers),
    )
    graph.add(sink, source)
    sources = left.sources | {source.name}
    graph.copartition(set(sources))
    resolver = ProcessorGraph(
        graph.suffixed(
            name,
            "-subscription-response-resolver",
            _PREFIX + "SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-",
        ),
        Part(join, ResolveNode),
        store_names=join.left.store_names(),
    )
    graph.add(source, resolver)
    result_name = graph.suffixed(name, "-result", _PREFIX + "OUTPUT-")
    store_name = store.name or graph.new_store_name(_PREFIX + "OUTPUT-")
    table = TableSource(store_name, store.name is not None)
    stored = key_value_store(store_name, store, left.key, value, left.plan.in_memory)
    result = ProcessorGraph(result_name, table, store=stored)
    result.set_versioned(store.history is not None)
    graph.add(resolver, result)
    return TableHandle(
        plan=left.plan,
        name=result_name,
        key=left.key,
        value=value,
        sources=sources,
        node=result,
        definition=table,
        store_name=store_name,
    )
