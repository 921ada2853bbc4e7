"""Joins of two tables by their keys: each side reads the other's current row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import UNKNOWN_TIME, Change, Record, Stamped
from odradek.core.streams.processors.base import (
    Definition,
    Getter,
    StatefulNode,
    StoreView,
    TableDefinition,
    View,
)
from odradek.core.streams.stores.base import LATEST, NOT_PUT

TableJoiner = Callable[[Any, Any, Any], Any]
"""Gets the key, the left value and the right value."""


class TableJoin:
    """What both sides of a join share. `keeps_left` and `keeps_right` say whose rows need no partner."""

    def __init__(
        self,
        left: View,
        right: View,
        enable_old: Callable[[], None],
        joiner: TableJoiner,
        keeps_left: bool,
        keeps_right: bool,
    ) -> None:
        self.left = left
        self.right = right
        self.enable_old = enable_old
        self.joiner = joiner
        self.keeps_left = keeps_left
        self.keeps_right = keeps_right


class TableJoinSide(Definition):
    """One side of a join."""

    def __init__(self, join: TableJoin, is_left: bool) -> None:
        self.join = join
        self.is_left = is_left
        self.uses_versions = False
        self.sends_old = False

    def send_old(self) -> None:
        """Send old values."""
        self.join.enable_old()
        self.sends_old = True

    def use_versions(self) -> None:
        """Know that this side's table is versioned: changes behind newer ones are dropped."""
        self.uses_versions = True

    def make(self) -> Node:
        """Return the node for one task."""
        return TableJoinNode(self)


class TableJoinNode(Node):
    """Joins the changes of one table with the rows of the other."""

    def __init__(self, side: TableJoinSide) -> None:
        super().__init__()
        join = side.join
        self._side = side
        self._keeps_this = join.keeps_left if side.is_left else join.keeps_right
        self._keeps_other = join.keeps_right if side.is_left else join.keeps_left
        self._other: Getter | None = None

    def init(self) -> None:
        """Find the stores."""
        join = self._side.join
        self._other = (join.right if self._side.is_left else join.left).open(self.context)

    def process(self, record: Record) -> None:
        """Forward the change of the joined row."""
        side = self._side
        if record.key is None:
            self.context.drop("null keys")
            return
        change: Change = record.value
        if side.uses_versions and not change.is_latest:
            return
        assert self._other is not None
        found = self._other.get(record.key)
        other = None if found is None else found.value
        other_time = UNKNOWN_TIME
        if other is None:
            if not self._keeps_this or (change.new is None and change.old is None):
                return
        else:
            assert found is not None
            other_time = found.timestamp
        new = self._joined(record.key, change.new, other)
        old = self._joined(record.key, change.old, other) if side.sends_old else None
        time = max(record.timestamp, other_time)
        self.forward(Record(record.key, Change(new, old, change.is_latest), time, record.headers))

    def _joined(self, key: Any, this: Any, other: Any) -> Any:
        if this is None and (other is None or not self._keeps_other):
            return None
        if self._side.is_left:
            return self._side.join.joiner(key, this, other)
        return self._side.join.joiner(key, other, this)


class TableJoinMerger(TableDefinition):
    """The joined table."""

    def __init__(self, left: TableJoinSide, right: TableJoinSide, store_name: str | None) -> None:
        self._left = left
        self._right = right
        self._store_name = store_name

    def enable_old(self, _force: bool) -> bool:
        """Send old values: both sides have them."""
        self._left.send_old()
        self._right.send_old()
        self.sends_old = True
        return True

    def view(self) -> View:
        """Return how others read the table: from its store, or from both tables."""
        if self._store_name is not None:
            return StoreView(self._store_name)
        return _JoinView(self._left.join)

    def make(self) -> Node:
        """Return the node for one task."""
        return TableJoinMergeNode(self._store_name, self.sends_old)


class TableJoinMergeNode(StatefulNode):
    """Forwards the changes of both sides, and stores them if the table has a store."""

    def __init__(self, store_name: str | None, sends_old: bool) -> None:
        super().__init__(store_name or "", sends_old)
        self._store: Any = None

    def init(self) -> None:
        """Find the store."""
        if self._store_name:
            self._store = self.open()

    def process(self, record: Record) -> None:
        """Store and forward the change."""
        change: Change = record.value
        if self._store is None:
            old = change.old if self._sends_old else None
            self.forward(record.with_value(Change(change.new, old, change.is_latest)))
            return
        result = self._store.put(record.key, change.new, record.timestamp)
        if result != NOT_PUT:
            self.send(record, change.new, change.old, result == LATEST)


class _JoinView:
    def __init__(self, join: TableJoin) -> None:
        self._join = join

    def store_names(self) -> list[str]:
        names = [*self._join.left.store_names(), *self._join.right.store_names()]
        return list(dict.fromkeys(names))

    def open(self, context: TaskContext) -> Getter:
        return _JoinGetter(
            self._join, self._join.left.open(context), self._join.right.open(context)
        )


class _JoinGetter:
    is_versioned = False

    def __init__(self, join: TableJoin, left: Getter, right: Getter) -> None:
        self._join = join
        self._left = left
        self._right = right

    def get(self, key: Any) -> Stamped | None:
        join = self._join
        one = self._left.get(key)
        if one is None and not join.keeps_right:
            return None
        two = self._right.get(key)
        if two is None and not join.keeps_left:
            return None
        if one is None and two is None:
            return None
        value = join.joiner(
            key, None if one is None else one.value, None if two is None else two.value
        )
        if value is None:
            return None
        times = [each.timestamp for each in (one, two) if each is not None]
        return Stamped(value, max(times))

    def get_as_of(self, key: Any, _timestamp: int) -> Stamped | None:
        return self.get(key)
