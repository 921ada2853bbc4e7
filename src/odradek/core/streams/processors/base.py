"""Definitions of processors: what the topology holds, and from which tasks make their nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import Change, Record, Stamped
from odradek.core.streams.stores.base import Store


class Definition:
    """A processor of the topology. All tasks share it, so it has no state of records."""

    def make(self) -> Node:
        """Return the node for one task."""
        raise NotImplementedError


class Simple(Definition):
    """A processor that only needs its node."""

    def __init__(self, make: Callable[[], Node]) -> None:
        self._make = make

    def make(self) -> Node:
        """Return the node for one task."""
        return self._make()


class Getter(Protocol):
    """Reads the current values of a table."""

    is_versioned: bool

    def get(self, key: Any) -> Stamped | None:
        """Return the value of a key."""
        ...

    def get_as_of(self, key: Any, timestamp: int) -> Stamped | None:
        """Return the value that a key had at a time (versioned tables only)."""
        ...


class View(Protocol):
    """How others read a table: from its store, or computed from its parents' stores."""

    def store_names(self) -> list[str]:
        """Return the stores that are read."""
        ...

    def open(self, context: TaskContext) -> Getter:
        """Return what reads the table in a task."""
        ...


class TableDefinition(Definition):
    """A processor whose output are the changes of a table."""

    sends_old = False

    def enable_old(self, _force: bool) -> bool:
        """Send old values with the changes, if possible without another store (or with it, by force).

        Returns whether they are sent.
        """
        raise NotImplementedError

    def view(self) -> View:
        """Return how others read the table."""
        raise NotImplementedError


class StoreGetter:
    """Reads a table's store."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.is_versioned: bool = store.is_versioned

    def get(self, key: Any) -> Stamped | None:
        """Return the value of a key."""
        found: Stamped | None = self._store.get(key)
        return found

    def get_as_of(self, key: Any, timestamp: int) -> Stamped | None:
        """Return the value that a key had at a time."""
        found: Stamped | None = self._store.get(key, timestamp)
        return found


class WindowGetter:
    """Reads the store of a windowed table."""

    is_versioned = False

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, key: Any) -> Stamped | None:
        """Return the value of a windowed key."""
        found: Stamped | None = self._store.fetch(key.key, key.start)
        return found

    def get_as_of(self, key: Any, _timestamp: int) -> Stamped | None:
        """Return the value of a windowed key."""
        return self.get(key)


class SessionGetter:
    """Reads the store of sessions."""

    is_versioned = False

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, key: Any) -> Stamped | None:
        """Return the value of a session, with its end as time."""
        value = self._store.get(key.key, key.start, key.end)
        return None if value is None else Stamped(value, key.end)

    def get_as_of(self, key: Any, _timestamp: int) -> Stamped | None:
        """Return the value of a session."""
        return self.get(key)


class StoreView:
    """A table that is read from a store."""

    def __init__(self, name: str, getter: Callable[[Any], Getter] = StoreGetter) -> None:
        self._name = name
        self._getter = getter

    def store_names(self) -> list[str]:
        """Return the store."""
        return [self._name]

    def open(self, context: TaskContext) -> Getter:
        """Return what reads the store in a task."""
        return self._getter(context.store(self._name))


class StatefulNode(Node):
    """A node with a store. It forwards changes itself, or lets the store's cache do it at commits."""

    def __init__(self, store_name: str, sends_old: bool) -> None:
        super().__init__()
        self._store_name = store_name
        self._sends_old = sends_old
        self._is_cached = False

    def open(self) -> Any:
        """Return the store, and become the receiver of what leaves its cache."""
        store: Store = self.context.store(self._store_name)
        self._is_cached = store.listen(self.forward, self._sends_old)
        return store

    def send(self, record: Record, new: Any, old: Any, is_latest: bool = True) -> None:
        """Forward a change with the key, time and headers of `record`, unless the cache does it."""
        if not self._is_cached:
            change = Change(new, old if self._sends_old else None, is_latest)
            self.forward(Record(record.key, change, record.timestamp, record.headers))
