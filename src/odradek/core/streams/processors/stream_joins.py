"""Joins of two streams.

Each side stores its records after it has joined them with those of the other side. Left and outer joins
also keep the records that have found no partner, and forward them alone when none can come any more. The
two sides share the times.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import UNKNOWN_TIME, Record
from odradek.core.streams.model.serdes import LONG_MAX, Serde
from odradek.core.streams.model.windows import JoinWindow
from odradek.core.streams.processors.base import Definition

Joiner = Callable[[Any, Any, Any], Any]
"""Gets the key, the left value and the right value."""
_TIME = Struct(">q")


class JoinDefinition:
    """A join of two streams. `unmatched` is the store of records without partner, if there is one."""

    def __init__(
        self,
        window: JoinWindow,
        joiner: Joiner,
        *,
        left_store: str,
        right_store: str,
        unmatched: str | None,
        keeps_left: bool,
        keeps_right: bool,
        key: Serde,
        left: Serde,
        right: Serde,
    ) -> None:
        self.window = window
        self.joiner = joiner
        self.left_store = left_store
        self.right_store = right_store
        self.unmatched = unmatched
        self.keeps_left = keeps_left
        self.keeps_right = keeps_right
        self.key = key
        self.left = left
        self.right = right


class StreamJoinSide(Definition):
    """One side of a join."""

    def __init__(self, join: JoinDefinition, is_left: bool) -> None:
        self._join = join
        self._is_left = is_left

    def make(self) -> Node:
        """Return the node for one task."""
        return StreamJoinNode(self._join, self._is_left)


class JoinTimes:
    """The times that both sides of a join share in a task."""

    def __init__(self) -> None:
        self.stream_time = UNKNOWN_TIME
        self.first_unmatched = LONG_MAX
        self.next_emit_ms = 0

    def advance(self, timestamp: int) -> None:
        """Note a record's time."""
        self.stream_time = max(self.stream_time, timestamp)

    def keep(self, timestamp: int) -> None:
        """Note the time of a record without partner."""
        self.first_unmatched = min(self.first_unmatched, timestamp)

    def look(self, next_emit_ms: int) -> None:
        """Begin to look for records without partner."""
        self.next_emit_ms = next_emit_ms
        self.first_unmatched = LONG_MAX

    def seen(self, timestamp: int) -> None:
        """Note the time of the record that was looked at."""
        self.first_unmatched = timestamp


class WindowedSide(Node):
    """Lets a record join, and then stores it."""

    def __init__(self, store_name: str) -> None:
        super().__init__()
        self._store_name = store_name
        self._store: Any = None

    def init(self) -> None:
        """Find the store."""
        self._store = self.context.store(self._store_name)

    def process(self, record: Record) -> None:
        """Forward and store the record."""
        self.forward(record)
        if record.key is not None:
            self._store.put(record.key, record.value, record.timestamp)


class StreamJoinNode(Node):
    """Joins the records of one side with the stored ones of the other."""

    def __init__(self, join: JoinDefinition, is_left: bool) -> None:
        super().__init__()
        self._join = join
        self._is_left = is_left
        window = join.window
        self._before = window.before_ms if is_left else window.after_ms
        self._after = window.after_ms if is_left else window.before_ms
        self._keeps = join.keeps_left if is_left else join.keeps_right
        self._other: Any = None
        self._unmatched: Any = None
        self._times = JoinTimes()

    def init(self) -> None:
        """Find the stores."""
        join = self._join
        context = self.context
        self._other = context.store(join.right_store if self._is_left else join.left_store)
        self._times = context.shared.setdefault(join, JoinTimes())
        if join.unmatched is not None:
            self._unmatched = context.store(join.unmatched)

    def process(self, record: Record) -> None:
        """Join the record. Without value, or without key in an inner join, it is dropped."""
        time, times = record.timestamp, self._times
        times.advance(time)
        if record.key is None or record.value is None:
            if self._keeps and record.value is not None:
                self.forward(record.with_value(self._joined(None, record.value, None)))
            else:
                self.context.drop("null keys or values")
            return
        if self._unmatched is not None and time == times.stream_time:
            self._emit_unmatched(record)
        last = max(0, time + self._after)
        found = self._other.between(record.key, max(0, time - self._before), last)
        for other_time, other in found:
            if self._unmatched is not None:
                self._unmatched.remove_if_present(
                    self._place(record.key, other_time, not self._is_left)
                )
            value = self._joined(record.key, record.value, other)
            self.forward(Record(record.key, value, max(time, other_time), record.headers))
        if not found and self._keeps:
            if self._unmatched is None or last < times.stream_time:
                self.forward(record.with_value(self._joined(record.key, record.value, None)))
            else:
                times.keep(time)
                self._keep(record)

    def _joined(self, key: Any, this: Any, other: Any) -> Any:
        if self._is_left:
            return self._join.joiner(key, this, other)
        return self._join.joiner(key, other, this)

    def _place(self, key: Any, time: int, is_left: bool) -> bytes:
        data = self._join.key.encode(key)
        assert data is not None
        return _TIME.pack(time) + (b"\x01" if is_left else b"\x00") + data

    def _keep(self, record: Record) -> None:
        """Store a record without partner."""
        join = self._join
        value = (join.left if self._is_left else join.right).encode(record.value)
        assert value is not None
        side = b"\x01" if self._is_left else b"\x00"
        self._unmatched.add(self._place(record.key, record.timestamp, self._is_left), side + value)

    def _emit_unmatched(self, record: Record) -> None:
        """Forward the records that can find no partner any more, in the order of their times."""
        times, context = self._times, self.context
        join = self._join
        grace = join.window.grace_ms
        wait = self._after + grace
        # Java's sum overflows while there is no record: then it looks, and finds nothing.
        overflows = times.first_unmatched == LONG_MAX and wait > 0
        if not overflows and times.first_unmatched + wait >= times.stream_time:
            return
        if context.now_ms < times.next_emit_ms:
            return
        times.look(context.now_ms + context.settings.get("emit_interval_ms", 1000))
        last: bytes | None = None
        is_open = [False, False]
        for place, value in self._unmatched.all():
            time = _TIME.unpack_from(place)[0]
            is_left = place[8] == 1
            times.seen(time)
            if is_open[0] and is_open[1]:
                break
            look_back = join.window.after_ms if is_left else join.window.before_ms
            if time + look_back + grace >= times.stream_time:
                is_open[is_left] = True
                continue
            self._emit(record, place, value, time)
            if last is not None and last != place:
                self._unmatched.remove(last)
            last = place
        if last is not None:
            self._unmatched.remove(last)

    def _emit(self, record: Record, place: bytes, value: bytes, time: int) -> None:
        join = self._join
        key = join.key.decode(place[9:])
        if value[0] == 1:
            joined = join.joiner(key, join.left.decode(value[1:]), None)
        else:
            joined = join.joiner(key, None, join.right.decode(value[1:]))
        self.forward(Record(key, joined, time, record.headers))
