"""Aggregations of streams and of grouped tables, without windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.core.streams.model.errors import ProcessingError, StreamsError
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import Change, Record
from odradek.core.streams.processors.base import (
    Definition,
    StatefulNode,
    StoreView,
    TableDefinition,
    View,
)
from odradek.core.streams.stores.base import LATEST, NOT_PUT

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
"""Gets the key, the value and the aggregate, and returns the new aggregate."""
Reducer = Callable[[Any, Any], Any]
"""Gets the aggregate and the value, and returns the new aggregate."""


def zero() -> int:
    """Return the first count."""
    return 0


def nothing() -> None:
    """Return the first aggregate of `reduce`."""


def count_up(_key: Any, _value: Any, count: Any) -> Any:
    """Add one."""
    return count + 1


def count_down(_key: Any, _value: Any, count: Any) -> Any:
    """Subtract one."""
    return count - 1


def reducing(reducer: Reducer) -> Aggregator:
    """Return the aggregator of a reducer: the first value is the first aggregate."""

    def aggregate(_key: Any, value: Any, total: Any) -> Any:
        return value if total is None else reducer(total, value)

    return aggregate


class StoredTable(TableDefinition):
    """A table with a store of its own."""

    def __init__(self, store_name: str) -> None:
        self.store_name = store_name

    def enable_old(self, _force: bool) -> bool:
        """Send old values."""
        self.sends_old = True
        return True

    def view(self) -> View:
        """Return how others read the table: from its store."""
        return StoreView(self.store_name)


class StreamAggregate(StoredTable):
    """An aggregation of a grouped stream. Records without key or value are dropped."""

    def __init__(self, store_name: str, initializer: Initializer, aggregator: Aggregator) -> None:
        super().__init__(store_name)
        self.initializer = initializer
        self.aggregator = aggregator

    def make(self) -> Node:
        """Return the node for one task."""
        return StreamAggregateNode(self)


class StreamAggregateNode(StatefulNode):
    """Adds each record to the aggregate of its key. The first old value is the initial aggregate."""

    def __init__(self, table: StreamAggregate) -> None:
        super().__init__(table.store_name, table.sends_old)
        self._initializer = table.initializer
        self._aggregator = table.aggregator
        self._store: Any = None

    def init(self) -> None:
        """Find the store."""
        self._store = self.open()

    def process(self, record: Record) -> None:
        """Add the record."""
        key, value, timestamp = record.key, record.value, record.timestamp
        if key is None or value is None:
            self.context.drop("null keys or values")
            return
        store = self._store
        found = store.get(key)
        if found is None:
            old = self._initializer()
        else:
            old = found.value
            timestamp = max(timestamp, found.timestamp)
        new = self._aggregator(key, value, old)
        result = store.put(key, new, timestamp)
        if result != NOT_PUT and not self._is_cached:
            change = Change(new, old if self._sends_old else None, result == LATEST)
            self.forward(Record(key, change, timestamp, record.headers))


class TableAggregate(StoredTable):
    """An aggregation of a grouped table: old values are subtracted, then new ones added."""

    def __init__(
        self,
        store_name: str,
        initializer: Initializer | None,
        adder: Aggregator,
        subtractor: Aggregator,
    ) -> None:
        super().__init__(store_name)
        self.initializer = initializer
        self.adder = adder
        self.subtractor = subtractor

    def make(self) -> Node:
        """Return the node for one task."""
        return TableAggregateNode(self)


class TableAggregateNode(StatefulNode):
    """Subtracts the old value of a change from the aggregate, and adds the new one.

    Without initializer it reduces: the first value is the first aggregate.
    """

    def __init__(self, table: TableAggregate) -> None:
        super().__init__(table.store_name, table.sends_old)
        self._table = table
        self._store: Any = None

    def init(self) -> None:
        """Find the store."""
        self._store = self.open()

    def process(self, record: Record) -> None:
        """Apply the change."""
        key, timestamp = record.key, record.timestamp
        if key is None:
            raise StreamsError(f"{self.name}: a record of a grouped table has no key")
        change: Change = record.value
        table = self._table
        found = self._store.get(key)
        old = None if found is None else found.value
        total = old
        if change.old is not None and old is not None:
            total = table.subtractor(key, change.old, old)
            timestamp = max(timestamp, found.timestamp)
        if change.new is not None:
            if total is None and table.initializer is None:
                total = change.new
            else:
                if total is None and table.initializer is not None:
                    total = table.initializer()
                total = table.adder(key, change.new, total)
                if found is not None:
                    timestamp = max(record.timestamp, found.timestamp)
        result = self._store.put(key, total, timestamp)
        if result != NOT_PUT:
            self.send(record.with_timestamp(timestamp), total, old, result == LATEST)


class TableRegroup(Definition):
    """Gives the changes of a table the keys by which it is grouped."""

    def __init__(self, mapper: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self.mapper = mapper
        self.uses_versions = False

    def use_versions(self) -> None:
        """Know that the table is versioned: changes behind newer ones are dropped."""
        self.uses_versions = True

    def make(self) -> Node:
        """Return the node for one task."""
        return TableRegroupNode(self)


class TableRegroupNode(Node):
    """Sends one change if the new key is the old one (KIP-904), else the removal and the addition."""

    def __init__(self, definition: TableRegroup) -> None:
        super().__init__()
        self._mapper = definition.mapper
        self._uses_versions = definition.uses_versions

    def process(self, record: Record) -> None:
        """Forward the change with the keys of the groups."""
        change: Change = record.value
        key = record.key
        if key is None:
            raise ProcessingError(self.name, "a table", ValueError("the key is null"))
        if self._uses_versions and not change.is_latest:
            return
        new = None if change.new is None else self._mapper(key, change.new)
        old = None if change.old is None else self._mapper(key, change.old)
        has_old = old is not None and old[0] is not None and old[1] is not None
        has_new = new is not None and new[0] is not None and new[1] is not None
        latest = change.is_latest
        if has_old and has_new and old is not None and new is not None and old[0] == new[0]:
            self._send(record, old[0], Change(new[1], old[1], latest))
            return
        if has_old and old is not None:
            self._send(record, old[0], Change(None, old[1], latest))
        if has_new and new is not None:
            self._send(record, new[0], Change(new[1], None, latest))

    def _send(self, record: Record, key: Any, change: Change) -> None:
        self.forward(Record(key, change, record.timestamp, record.headers))
