"""Tables: their sources, and what filters and maps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import Change, Record, Stamped
from odradek.core.streams.processors.base import (
    Getter,
    StatefulNode,
    StoreView,
    TableDefinition,
    View,
)
from odradek.core.streams.processors.stateless import Mapper, PassThrough, Predicate
from odradek.core.streams.stores.base import LATEST, NOT_PUT


class TableSource(TableDefinition):
    """A table of a topic or stream. It gets a store only if somebody needs it."""

    def __init__(self, store_name: str, is_queryable: bool) -> None:
        self.store_name = store_name
        self.is_materialized = is_queryable

    def materialize(self) -> None:
        """Demand a store."""
        self.is_materialized = True

    def enable_old(self, force: bool) -> bool:
        """Send old values: they need the store."""
        if not force and not self.is_materialized:
            return False
        self.is_materialized = True
        self.sends_old = True
        return True

    def view(self) -> View:
        """Return how others read the table: from its store."""
        self.materialize()
        return StoreView(self.store_name)

    def make(self) -> Node:
        """Return the node for one task."""
        return TableSourceNode(self.store_name if self.is_materialized else None, self.sends_old)


class TableSourceNode(StatefulNode):
    """Stores the last value of each key, and forwards the changes."""

    def __init__(self, store_name: str | None, sends_old: bool) -> None:
        super().__init__(store_name or "", sends_old)
        self._store: Any = None

    def init(self) -> None:
        """Find the store."""
        if self._store_name:
            self._store = self.open()

    def process(self, record: Record) -> None:
        """Store the value. A record without key is dropped."""
        if record.key is None:
            self.context.drop("null keys")
            return
        if self._store is None:
            self.forward(record.with_value(Change(record.value, None)))
            return
        old = self._store.get(record.key)
        result = self._store.put(record.key, record.value, record.timestamp)
        if result != NOT_PUT:
            self.send(record, record.value, old.value if old else None, result == LATEST)


class ChildTable(TableDefinition):
    """A table that is computed from one other, with a store only if it has a name."""

    def __init__(
        self,
        parent: TableDefinition,
        enable_parent: Callable[[bool], bool],
        store_name: str | None,
    ) -> None:
        self.parent = parent
        self.enable_parent = enable_parent
        self.store_name = store_name
        self.uses_versions = False

    def use_versions(self) -> None:
        """Know that the parent is versioned."""
        self.uses_versions = True

    def enable_old(self, force: bool) -> bool:
        """Send old values: from the own store, or from the parent's."""
        if self.store_name is not None:
            self.sends_old = True
            return True
        if self.enable_parent(force):
            self.sends_old = True
        return self.sends_old

    def compute(self, key: Any, value: Any) -> Any:
        """Return the value of this table for one of the parent."""
        raise NotImplementedError

    def compute_stamped(self, key: Any, found: Stamped | None) -> Stamped | None:
        """Return the value of this table for one of the parent, with its time."""
        if found is None:
            return None
        value = self.compute(key, found.value)
        return None if value is None else Stamped(value, found.timestamp)

    def view(self) -> View:
        """Return how others read the table."""
        if self.store_name is not None:
            return StoreView(self.store_name)
        return _ComputedView(self, self.parent.view())


class _ComputedView:
    def __init__(self, table: ChildTable, parent: View) -> None:
        self._table = table
        self._parent = parent

    def store_names(self) -> list[str]:
        return self._parent.store_names()

    def open(self, context: TaskContext) -> Getter:
        return _ComputedGetter(self._table, self._parent.open(context))


class _ComputedGetter:
    def __init__(self, table: ChildTable, parent: Getter) -> None:
        self._table = table
        self._parent = parent
        self.is_versioned: bool = parent.is_versioned

    def get(self, key: Any) -> Stamped | None:
        return self._table.compute_stamped(key, self._parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> Stamped | None:
        return self._table.compute_stamped(key, self._parent.get_as_of(key, timestamp))


class TableFilter(ChildTable):
    """A table without the rows that the predicate refuses."""

    def __init__(
        self,
        parent: TableDefinition,
        enable_parent: Callable[[bool], bool],
        store_name: str | None,
        predicate: Predicate,
        keeps: bool,
    ) -> None:
        super().__init__(parent, enable_parent, store_name)
        self._predicate = predicate
        self._keeps = keeps
        self.sends_old = enable_parent(False)

    def compute(self, key: Any, value: Any) -> Any:
        """Return the value if the predicate allows it."""
        if value is not None and bool(self._predicate(key, value)) is self._keeps:
            return value
        return None

    def make(self) -> Node:
        """Return the node for one task."""
        return ChildTableNode(self, skips_nothing=self.uses_versions)


class TableMapValues(ChildTable):
    """A table with other values."""

    def __init__(
        self,
        parent: TableDefinition,
        enable_parent: Callable[[bool], bool],
        store_name: str | None,
        mapper: Mapper,
    ) -> None:
        super().__init__(parent, enable_parent, store_name)
        self._mapper = mapper

    def compute(self, key: Any, value: Any) -> Any:
        """Return the mapped value."""
        return None if value is None else self._mapper(key, value)

    def make(self) -> Node:
        """Return the node for one task."""
        return ChildTableNode(self, skips_nothing=True)


class ChildTableNode(StatefulNode):
    """Computes the changes of a table from those of its parent.

    Unless `skips_nothing`, a change from nothing to nothing is dropped. It can only be seen if old
    values are sent: without them, a filter forwards a tombstone for each row that it refuses.
    """

    def __init__(self, table: ChildTable, *, skips_nothing: bool) -> None:
        super().__init__(table.store_name or "", table.sends_old)
        self._table = table
        self._store: Any = None
        self._skips_nothing = skips_nothing

    def init(self) -> None:
        """Find the store."""
        if self._store_name:
            self._store = self.open()

    def process(self, record: Record) -> None:
        """Forward the change of this table."""
        change: Change = record.value
        key = record.key
        new = self._table.compute(key, change.new)
        old = self._old(key, change)
        if not self._skips_nothing and self._sends_old and old is None and new is None:
            return
        if self._store is None:
            self.forward(record.with_value(Change(new, old, change.is_latest)))
            return
        result = self._store.put(key, new, record.timestamp)
        if result != NOT_PUT:
            self.send(record, new, old, result == LATEST)

    def _old(self, key: Any, change: Change) -> Any:
        if not self._sends_old:
            return None
        if self._store is None:
            return self._table.compute(key, change.old)
        found = self._store.get(key)
        return None if found is None else found.value


class TablePassThrough(TableDefinition):
    """The merged output of the aggregations of cogrouped streams."""

    def __init__(self, parents: list[TableDefinition], view: View) -> None:
        self._parents = parents
        self._view = view

    def enable_old(self, _force: bool) -> bool:
        """Send old values: the aggregations have them."""
        for parent in self._parents:
            parent.enable_old(True)
        return True

    def view(self) -> View:
        """Return how others read the table: from the aggregations' store."""
        return self._view

    def make(self) -> Node:
        """Return the node for one task."""
        return PassThrough()
