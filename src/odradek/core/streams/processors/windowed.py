"""Aggregations over tumbling, hopping and unlimited windows."""

from __future__ import annotations

from typing import Any

from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import UNKNOWN_TIME, Change, Record, Windowed
from odradek.core.streams.model.windows import Hopping, Unlimited
from odradek.core.streams.processors.aggregates import Aggregator, Initializer, StoredTable
from odradek.core.streams.processors.base import StatefulNode, StoreView, View, WindowGetter

EMIT_INTERVAL_MS = 1000
"""Final results are looked for at most once in this wall-clock time."""


class WindowedTable(StoredTable):
    """An aggregation by key and window.

    With `emits_final` a window's result is forwarded once, when stream time has passed its end and
    the grace period.
    """

    def __init__(
        self,
        store_name: str,
        initializer: Initializer,
        aggregator: Aggregator,
        emits_final: bool,
    ) -> None:
        super().__init__(store_name)
        self.initializer = initializer
        self.aggregator = aggregator
        self.emits_final = emits_final

    @property
    def close_delay_ms(self) -> int:
        """Return how long after its end a window closes."""
        raise NotImplementedError

    def view(self) -> View:
        """Return how others read the table: from its store."""
        return StoreView(self.store_name, WindowGetter)


class WindowAggregate(WindowedTable):
    """An aggregation over tumbling, hopping or unlimited windows."""

    def __init__(
        self,
        store_name: str,
        windows: Hopping | Unlimited,
        initializer: Initializer,
        aggregator: Aggregator,
        emits_final: bool,
    ) -> None:
        super().__init__(store_name, initializer, aggregator, emits_final)
        self.windows = windows

    @property
    def close_delay_ms(self) -> int:
        """Return how long after its end a window closes."""
        return self.windows.grace_ms

    def make(self) -> Node:
        """Return the node for one task."""
        return WindowAggregateNode(self)


class FinalEmitter:
    """Decides when to look for windows that have closed: not more often than once in an interval, and
    only if stream time has passed. The last time is kept in the task's metadata."""

    def __init__(self, node: Node, store_name: str) -> None:
        self._node = node
        self._store_name = store_name
        self._next_ms = 0
        self.last = UNKNOWN_TIME

    def restore(self) -> None:
        """Continue where the task was when it stopped."""
        self.last = self._node.context.metadata.get(self._store_name, UNKNOWN_TIME)

    def is_due(self, close_time: int) -> bool:
        """Return whether to look now."""
        context = self._node.context
        now = context.now_ms
        if now < self._next_ms:
            return False
        self._next_ms = now + context.settings.get("emit_interval_ms", EMIT_INTERVAL_MS)
        return self.last == UNKNOWN_TIME or self.last < close_time

    def done(self, close_time: int) -> None:
        """Note up to when windows have been emitted."""
        self.last = close_time
        self._node.context.metadata[self._store_name] = close_time


class WindowedNode(StatefulNode):
    """What aggregations over windows of time have in common."""

    def __init__(self, table: WindowedTable) -> None:
        super().__init__(table.store_name, table.sends_old)
        self._initializer = table.initializer
        self._aggregator = table.aggregator
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

    def _update(self, record: Record, window: Windowed, old: Any, new: Any, time: int) -> None:
        """Forward an update of a window."""
        if self._final is None and not self._is_cached:
            change = Change(new, old if self._sends_old else None)
            self.forward(Record(window, change, time, record.headers))

    def _emit_final(self, record: Record, close_time: int) -> None:
        """Forward the results of the windows that have closed."""
        final = self._final
        if final is None or not final.is_due(close_time):
            return
        bounds = self._closed(final.last, close_time)
        if bounds is None:
            return
        for window, found in self._store.all_between(*bounds):
            self.forward(Record(window, Change(found.value, None), found.timestamp, record.headers))
        final.done(close_time)

    def _closed(self, last: int, close_time: int) -> tuple[int, int] | None:
        """Return the first and last start of windows that have closed since `last`."""
        raise NotImplementedError


class WindowAggregateNode(WindowedNode):
    """Adds each record to the aggregates of its windows. A record without key is dropped."""

    def __init__(self, table: WindowAggregate) -> None:
        super().__init__(table)
        self._windows = table.windows

    def process(self, record: Record) -> None:
        """Add the record to the windows that are not closed."""
        key, timestamp = record.key, record.timestamp
        if key is None:
            self.context.drop("null keys")
            return
        self._observed = max(self._observed, timestamp)
        windows = self._windows
        close_time = self._observed - windows.grace_ms
        store = self._store
        for start in windows.starts_for(timestamp):
            end = windows.end_of(start)
            if end <= close_time:
                self.context.drop("late records")
                continue
            found = store.fetch(key, start)
            if found is None:
                old = self._initializer()
                time = timestamp
            else:
                old = found.value
                time = max(timestamp, found.timestamp)
            new = self._aggregator(key, record.value, old)
            store.put(key, new, time, start)
            self._update(record, Windowed(key, start, end), old, new, time)
        self._emit_final(record, close_time)

    def _closed(self, last: int, close_time: int) -> tuple[int, int] | None:
        size = self._windows.size_ms
        upper = close_time - size
        if upper < 0:
            return None
        if last == UNKNOWN_TIME:
            return 0, upper
        lower = max(0, last - size) + 1
        if self._windows.starts_for(upper) == self._windows.starts_for(lower - 1):
            return None
        return lower, upper
