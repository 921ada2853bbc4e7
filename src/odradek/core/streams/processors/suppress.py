"""Holds the updates of a table back until their window closes, or for a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.errors import BufferFull
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import UNKNOWN_TIME, Record, Stamped
from odradek.core.streams.model.serdes import LONG_MAX
from odradek.core.streams.processors.base import Getter, TableDefinition, View
from odradek.core.streams.stores.buffers import Eviction


class Suppress(TableDefinition):
    """Holds updates back. `wait_ms` counts from the record's time, or, if `until_window_closes`, from
    the end of the window; then tombstones are dropped too.

    If the buffer has more than `max_records` or `max_bytes`, the oldest updates leave early, or, with
    `stops_when_full`, the program stops.
    """

    def __init__(
        self,
        parent: TableDefinition,
        enable_parent: Callable[[bool], bool],
        store_name: str,
        wait_ms: int,
        *,
        until_window_closes: bool,
        max_records: int | None,
        max_bytes: int | None,
        stops_when_full: bool,
    ) -> None:
        self.parent = parent
        self.enable_parent = enable_parent
        self.store_name = store_name
        self.wait_ms = wait_ms
        self.until_window_closes = until_window_closes
        self.max_records = LONG_MAX if max_records is None else max_records
        self.max_bytes = LONG_MAX if max_bytes is None else max_bytes
        self.stops_when_full = stops_when_full
        enable_parent(True)

    def enable_old(self, force: bool) -> bool:
        """Send old values: the parent has them."""
        return self.enable_parent(force)

    def view(self) -> View:
        """Return how others read the table: what has left the buffer."""
        return _SuppressView(self.store_name, self.parent.view())

    def make(self) -> Node:
        """Return the node for one task."""
        return SuppressNode(self)


class _SuppressView:
    def __init__(self, store_name: str, parent: View) -> None:
        self._store_name = store_name
        self._parent = parent

    def store_names(self) -> list[str]:
        return [self._store_name, *self._parent.store_names()]

    def open(self, context: TaskContext) -> Getter:
        return _SuppressGetter(context.store(self._store_name), self._parent.open(context))


class _SuppressGetter:
    is_versioned = False

    def __init__(self, buffer: Any, parent: Getter) -> None:
        self._buffer = buffer
        self._parent = parent

    def get(self, key: Any) -> Stamped | None:
        is_buffered, found = self._buffer.prior(key)
        if is_buffered:
            prior: Stamped | None = found
            return prior
        return self._parent.get(key)

    def get_as_of(self, key: Any, _timestamp: int) -> Stamped | None:
        return self.get(key)


class SuppressNode(Node):
    """Forwards updates when stream time has passed their place in the buffer."""

    def __init__(self, definition: Suppress) -> None:
        super().__init__()
        self._definition = definition
        self._observed = UNKNOWN_TIME
        self._buffer: Any = None

    def init(self) -> None:
        """Find the buffer."""
        self._buffer = self.context.store(self._definition.store_name)

    def process(self, record: Record) -> None:
        """Hold the update back, and forward those that are due."""
        definition, buffer = self._definition, self._buffer
        self._observed = max(self._observed, record.timestamp)
        time = record.key.end if definition.until_window_closes else self.context.record.timestamp
        buffer.put(time, record)
        limit = self._observed - definition.wait_ms
        buffer.evict_while(lambda: buffer.first_time() <= limit, self._emit)
        if not self._is_full():
            return
        if definition.stops_when_full:
            raise BufferFull(
                f"{self.name} buffer exceeded its max capacity. Currently "
                f"[{len(buffer)}/{definition.max_records}] records and "
                f"[{buffer.size_bytes}/{definition.max_bytes}] bytes."
            )
        buffer.evict_while(self._is_full, self._emit)

    def _is_full(self) -> bool:
        definition = self._definition
        return (
            len(self._buffer) > definition.max_records
            or self._buffer.size_bytes > definition.max_bytes
        )

    def _emit(self, eviction: Eviction) -> None:
        if eviction.value.new is None and self._definition.until_window_closes:
            return
        context = self.context
        before = context.record
        context.enter(eviction.record)
        record = eviction.record
        self.forward(Record(eviction.key, eviction.value, record.timestamp, record.headers))
        context.enter(before)
