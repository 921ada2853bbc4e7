"""Joins of a stream with a table or a global table: only the stream's records cause results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import UNKNOWN_TIME, Record
from odradek.core.streams.processors.base import Definition, Getter, View
from odradek.core.streams.processors.stream_joins import Joiner
from odradek.core.streams.stores.base import Store


class LookupJoin(Definition):
    """A join with a table. `mapper` returns the key of the table from key and value of a record.

    With `buffer`, the store of waiting records, a record is joined after the grace period, with the
    version of the table at its time.
    """

    def __init__(
        self,
        view: View,
        mapper: Callable[[Any, Any], Any] | None,
        joiner: Joiner,
        keeps_stream: bool,
        buffer: str | None,
    ) -> None:
        self.view = view
        self.mapper = mapper
        self.joiner = joiner
        self.keeps_stream = keeps_stream
        self.buffer = buffer

    def make(self) -> Node:
        """Return the node for one task."""
        return LookupJoinNode(self)


class LookupJoinNode(Node):
    """Looks the table's value of each record up."""

    def __init__(self, join: LookupJoin) -> None:
        super().__init__()
        self._join = join
        self._table: Getter | None = None
        self._buffer: Any = None
        self._observed = UNKNOWN_TIME

    def init(self) -> None:
        """Find the stores."""
        self._table = self._join.view.open(self.context)
        if self._join.buffer is not None:
            if not self._table.is_versioned:
                raise TopologyError(
                    f"{self.name}: a table must be versioned for a join with a grace period"
                )
            buffer: Store = self.context.store(self._join.buffer)
            self._buffer = buffer

    def process(self, record: Record) -> None:
        """Join the record, or keep it until the grace period is over."""
        self._observed = max(self._observed, record.timestamp)
        join = self._join
        if record.value is None or (self._key(record) is None and not join.keeps_stream):
            self.context.drop("null keys or values")
            return
        if self._buffer is None or not self._buffer.put(record):
            self._do(record)
            return
        context = self.context
        before = context.record
        for eviction in self._buffer.due():
            at = eviction.record
            context.enter(at)
            self._do(Record(eviction.key, eviction.value, at.timestamp, at.headers))
            context.enter(before)

    def _key(self, record: Record) -> Any:
        mapper = self._join.mapper
        return record.key if mapper is None else mapper(record.key, record.value)

    def _do(self, record: Record) -> None:
        table = self._table
        assert table is not None
        key = self._key(record)
        found = None
        if key is not None:
            if table.is_versioned:
                found = table.get_as_of(key, record.timestamp)
            else:
                found = table.get(key)
        value = None if found is None else found.value
        if value is not None or self._join.keeps_stream:
            self.forward(record.with_value(self._join.joiner(record.key, record.value, value)))
