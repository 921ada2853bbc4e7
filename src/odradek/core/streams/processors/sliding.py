"""Aggregations over sliding windows.

Each record has two windows: the left one ends at its time, the right one starts one millisecond
behind it. A right window exists only if it is not empty. A record is added to all windows that contain
its time; and the windows that begin to be different because of it are created. Records before
`difference` share one window that starts at 0.
"""

from __future__ import annotations

from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import UNKNOWN_TIME, Record, Stamped, Windowed
from odradek.core.streams.model.windows import Sliding
from odradek.core.streams.processors.aggregates import Aggregator, Initializer
from odradek.core.streams.processors.windowed import WindowedNode, WindowedTable


class SlidingAggregate(WindowedTable):
    """An aggregation over sliding windows."""

    def __init__(
        self,
        store_name: str,
        windows: Sliding,
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
        return SlidingAggregateNode(self)


class SlidingAggregateNode(WindowedNode):
    """Adds each record to its windows. Records without key or value are dropped."""

    def __init__(self, table: SlidingAggregate) -> None:
        super().__init__(table)
        self._difference = table.windows.difference_ms
        self._grace = table.windows.grace_ms

    def process(self, record: Record) -> None:
        """Add the record."""
        if record.key is None or record.value is None:
            self.context.drop("null keys or values")
            return
        time = record.timestamp
        self._observed = max(self._observed, time)
        close_time = self._observed - self._grace
        if time + self._difference < close_time:
            self.context.drop("late records")
            return
        if time < self._difference:
            self._early(record, close_time)
            return
        self._regular(record, close_time)
        self._emit_final(record, close_time)

    def _regular(self, record: Record, close_time: int) -> None:
        """Add a record from the newest window to the oldest."""
        time, difference = record.timestamp, self._difference
        starts: set[int] = set()
        left: Stamped | None = None
        right: Stamped | None = None
        has_left = has_right = False
        previous: int | None = None
        first = max(0, time - 2 * difference)
        for start, found in reversed(self._store.between(record.key, first, time + 1)):
            starts.add(start)
            end = start + difference
            if start == time + 1:
                has_right = True
            elif end > time:
                right = right or found
                self._add(record, start, found, close_time)
            elif end == time:
                has_left = True
                self._add(record, start, found, close_time)
                if found.timestamp >= time:
                    return
                previous = found.timestamp
            else:
                left = found
                previous = found.timestamp
                break
        if (
            previous is not None
            and previous + 1 not in starts
            and previous + 1 + difference >= time
        ):
            self._create(record, previous + 1, close_time)
        if not has_left:
            if previous is not None and left is not None and time - difference <= previous:
                self._add(record, time - difference, Stamped(left.value, time), close_time)
            else:
                self._create(record, time - difference, close_time)
        if not has_right and right is not None and right.timestamp > time:
            self._copy(record, right)

    def _early(self, record: Record, close_time: int) -> None:
        """Add a record whose left window would start before 0."""
        time = record.timestamp
        combined: Stamped | None = None
        right: Stamped | None = None
        has_right = False
        starts: set[int] = set()
        previous: int | None = None
        for start, found in self._store.between(record.key, 0, time + 1):
            starts.add(start)
            if start == 0:
                combined = found
                if found.timestamp < time:
                    previous = found.timestamp
            elif start <= time:
                right = found
                self._add(record, start, found, close_time)
            else:
                has_right = True
        if right is None and combined is not None and combined.timestamp > time:
            right = combined
        if not has_right and right is not None and right.timestamp > time:
            self._copy(record, right)
        if previous is not None and previous + 1 not in starts:
            self._create(record, previous + 1, close_time)
        if combined is None:
            self._create(record, 0, close_time)
        else:
            self._add(record, 0, combined, close_time)

    def _create(self, record: Record, start: int, close_time: int) -> None:
        """Create a window with the record alone."""
        self._add(record, start, Stamped(self._initializer(), record.timestamp), close_time)

    def _copy(self, record: Record, right: Stamped) -> None:
        """Create the right window of the record from a window with the same later records."""
        start = record.timestamp + 1
        self._store.put(record.key, right.value, right.timestamp, start)
        window = Windowed(record.key, start, start + self._difference)
        self._update(record, window, None, right.value, right.timestamp)

    def _add(self, record: Record, start: int, found: Stamped, close_time: int) -> None:
        """Add the record to a window, unless it is closed."""
        end = start + self._difference
        if end < close_time:
            self.context.drop("late records")
            return
        old = found.value
        new = self._aggregator(record.key, record.value, old)
        time = record.timestamp if old is None else max(record.timestamp, found.timestamp)
        self._store.put(record.key, new, time, start)
        self._update(record, Windowed(record.key, start, end), old, new, time)

    def _closed(self, last: int, close_time: int) -> tuple[int, int] | None:
        upper = close_time - self._difference - 1
        if upper < 0:
            return None
        lower = 0 if last == UNKNOWN_TIME else max(0, last - self._difference)
        return lower, upper
