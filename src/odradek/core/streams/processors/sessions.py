"""Aggregations over sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import UNKNOWN_TIME, Change, Record, Windowed
from odradek.core.streams.model.windows import Session
from odradek.core.streams.processors.aggregates import Aggregator, Initializer
from odradek.core.streams.processors.base import SessionGetter, StatefulNode, StoreView, View
from odradek.core.streams.processors.windowed import FinalEmitter, WindowedTable

Merger = Callable[[Any, Any, Any], Any]
"""Gets the key and two aggregates, and returns their sum."""


class SessionAggregate(WindowedTable):
    """An aggregation over sessions."""

    def __init__(
        self,
        store_name: str,
        windows: Session,
        initializer: Initializer,
        aggregator: Aggregator,
        merger: Merger,
        emits_final: bool,
    ) -> None:
        super().__init__(store_name, initializer, aggregator, emits_final)
        self.windows = windows
        self.merger = merger

    @property
    def close_delay_ms(self) -> int:
        """Return how long after its end a session closes."""
        return self.windows.grace_ms + self.windows.gap_ms

    def view(self) -> View:
        """Return how others read the table: from its store."""
        return StoreView(self.store_name, SessionGetter)

    def make(self) -> Node:
        """Return the node for one task."""
        return SessionAggregateNode(self)


class SessionAggregateNode(StatefulNode):
    """Merges the sessions that a record connects: a tombstone for each, then the new session.

    A record without key is dropped, and one whose session would be closed already.
    """

    def __init__(self, table: SessionAggregate) -> None:
        super().__init__(table.store_name, table.sends_old)
        self._table = table
        self._gap = table.windows.gap_ms
        self._close_delay = table.close_delay_ms
        self._final = FinalEmitter(self, table.store_name) if table.emits_final else None
        self._observed = UNKNOWN_TIME
        self._store: Any = None

    def init(self) -> None:
        """Find the store."""
        if self._final is None:
            self._store = self.open()
        else:
            self._store = self.context.store(self._store_name)
            self._final.restore()

    def process(self, record: Record) -> None:
        """Add the record to its session."""
        key, time = record.key, record.timestamp
        if key is None:
            self.context.drop("null keys")
            return
        self._observed = max(self._observed, time)
        close_time = self._observed - self._close_delay
        table = self._table
        total = table.initializer()
        start = end = time
        merged = self._store.find(key, time - self._gap, time + self._gap)
        for session, value in merged:
            total = table.merger(key, total, value)
            start = min(start, session.start)
            end = max(end, session.end)
        if end < close_time:
            self.context.drop("late records")
        else:
            if start != time or end != time:
                for session, value in merged:
                    self._store.put(session, None)
                    self._update(session, value, None)
            total = table.aggregator(key, record.value, total)
            session = Windowed(key, start, end)
            self._store.put(session, total)
            self._update(session, None, total)
        self._emit_final(record, close_time)

    def _update(self, session: Windowed, old: Any, new: Any) -> None:
        """Forward a change. It has no headers, as in Kafka Streams."""
        if self._final is None and not self._is_cached:
            change = Change(new, old if self._sends_old else None)
            self.forward(Record(session, change, session.end))

    def _emit_final(self, record: Record, close_time: int) -> None:
        final = self._final
        if final is None or not final.is_due(close_time):
            return
        lower, upper = max(0, final.last), close_time - 1
        if upper < 0 or upper < lower:
            return
        for session, value in self._store.ended_between(lower, upper):
            self.forward(Record(session, Change(value, None), session.end, record.headers))
        final.done(close_time)
