"""Buffers in the order of time: updates that `suppress` holds back, and records of a stream that wait
for a versioned table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from struct import Struct
from typing import Any, NamedTuple

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.java_order import hash_order
from odradek.core.streams.model.records import (
    UNKNOWN_TIME,
    Change,
    Headers,
    Record,
    RecordContext,
    Stamped,
)
from odradek.core.streams.model.serdes import LONG_MAX
from odradek.core.streams.stores.base import Store
from odradek.core.streams.stores.definition import StoreDefinition

_CONTEXT = Struct(">qqi")
_INT = Struct(">i")
_LONG = Struct(">q")
_VERSION: Headers = (("v", b"\x03"),)
_NULL = -1
_SAME = -2


class Eviction(NamedTuple):
    """A record that leaves a buffer, and where it came from."""

    key: Any
    value: Any
    record: RecordContext


class _Buffered(NamedTuple):
    prior: bytes | None
    """The value before the first update that is in the buffer."""
    old: bytes | None
    new: bytes | None
    record: RecordContext

    def size(self) -> int:
        prior = 0 if self.prior is None else len(self.prior)
        old = 0 if self.old is None or self.old == self.prior else len(self.old)
        new = 0 if self.new is None else len(self.new)
        return prior + old + new + self.record.size()

    def encode(self) -> bytes:
        if self.old is None:
            old = _INT.pack(_NULL)
        elif self.old == self.prior:
            old = _INT.pack(_SAME)
        else:
            old = _INT.pack(len(self.old)) + self.old
        return _encode_context(self.record) + _nullable(self.prior) + old + _nullable(self.new)


def _nullable(data: bytes | None) -> bytes:
    return _INT.pack(_NULL) if data is None else _INT.pack(len(data)) + data


def _encode_context(record: RecordContext) -> bytes:
    topic = (record.topic or "").encode()
    parts = [
        _LONG.pack(record.timestamp),
        _LONG.pack(record.offset),
        _INT.pack(len(topic)),
        topic,
        _INT.pack(record.partition),
        _INT.pack(len(record.headers)),
    ]
    for name, value in record.headers:
        parts.append(_nullable(name.encode()))
        parts.append(_nullable(value))
    return b"".join(parts)


class _Reader:
    """Reads the fields of an encoded buffer value."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def long(self) -> int:
        self._place += 8
        return int.from_bytes(self._data[self._place - 8 : self._place], "big", signed=True)

    def number(self) -> int:
        self._place += 4
        return int.from_bytes(self._data[self._place - 4 : self._place], "big", signed=True)

    def data(self, size: int) -> bytes | None:
        if size < 0:
            return None
        self._place += size
        return self._data[self._place - size : self._place]

    def nullable(self) -> bytes | None:
        return self.data(self.number())

    def record(self) -> RecordContext:
        timestamp, offset = self.long(), self.long()
        topic = (self.nullable() or b"").decode()
        partition = self.number()
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(self.number()):
            name = (self.nullable() or b"").decode()
            headers.append((name, self.nullable()))
        return RecordContext(topic, partition, offset, timestamp, tuple(headers))

    def buffered(self) -> _Buffered:
        record = self.record()
        prior = self.nullable()
        size = self.number()
        old = prior if size == _SAME else self.data(size)
        return _Buffered(prior, old, self.nullable(), record)


class ChangeBuffer(Store):
    """The updates that `suppress` holds back, one for each key.

    The first update of a key fixes its place: the time, then the key. The changelog is written at the
    commit: a tombstone for each key that has left, the update of each that is still here.
    """

    def __init__(
        self, definition: StoreDefinition, context: TaskContext, changelog: str | None
    ) -> None:
        super().__init__(definition, context, changelog)
        self._key = definition.key
        self._value = definition.value
        self._times: dict[bytes, int] = {}
        self._values: dict[bytes, _Buffered] = {}
        self._queue: list[tuple[int, bytes]] = []
        self._dirty: dict[bytes, None] = {}
        self._dirty_capacity = 16
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def put(self, time: int, record: Record) -> None:
        """Hold an update back. `record.value` is a Change."""
        key = self._key.encode(record.key)
        assert key is not None
        change: Change = record.value
        old = self._value.encode(change.old)
        before = self._values.get(key)
        prior = old if before is None else before.prior
        new = self._value.encode(change.new)
        self._put(time, key, _Buffered(prior, old, new, self.context.record))
        self._mark(key)

    def first_time(self) -> int:
        """Return the time of the first place."""
        self._forget()
        return self._queue[0][0] if self._queue else LONG_MAX

    def prior(self, key: Any) -> tuple[bool, Stamped | None]:
        """Return whether a key is in the buffer, and the value that later operators know of it."""
        data = self._key.encode(key)
        assert data is not None
        found = self._values.get(data)
        if found is None:
            return False, None
        value = self._value.decode(found.prior)
        return True, None if value is None else Stamped(value, UNKNOWN_TIME)

    def evict_while(self, is_due: Callable[[], bool], emit: Callable[[Eviction], None]) -> None:
        """Let updates leave in order while `is_due()`. Each is emitted before it is removed."""
        self._forget()
        while self._queue and is_due():
            _, key = self._queue[0]
            found = self._values[key]
            decode = self._value.decode
            change = Change(decode(found.new), decode(found.old))
            emit(Eviction(self._key.decode(key), change, found.record))
            self._remove(key)
            self._mark(key)
            self._forget()

    def flush(self) -> None:
        """Write the changelog."""
        if self.changelog is not None:
            for key in hash_order(self._dirty, self._dirty_capacity):
                found = self._values.get(key)
                if found is None:
                    self.log(key, None, None)
                else:
                    value = found.encode() + _LONG.pack(self._times[key])
                    self.log(key, value, None, _VERSION)
        self._dirty.clear()

    def restore(
        self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Apply a record of the changelog."""
        if value is None:
            if key in self._values:
                self._remove(key)
            return
        found = _Reader(value).buffered()
        self._put(_LONG.unpack_from(value, len(value) - 8)[0], key, found)

    def _mark(self, key: bytes) -> None:
        if self.changelog is not None:
            self._dirty[key] = None
            while len(self._dirty) > self._dirty_capacity * 3 // 4:
                self._dirty_capacity *= 2

    def _put(self, time: int, key: bytes, value: _Buffered) -> None:
        before = self._values.get(key)
        if before is None:
            self._times[key] = time
            heappush(self._queue, (time, key))
            self.size_bytes += 8 + len(key) + value.size()
        else:
            self.size_bytes += value.size() - before.size()
        self._values[key] = value

    def _remove(self, key: bytes) -> None:
        value = self._values.pop(key)
        del self._times[key]
        self.size_bytes -= 8 + len(key) + value.size()

    def _forget(self) -> None:
        """Remove the places of keys that have left (restored deletions leave them in the queue)."""
        queue = self._queue
        while queue and self._times.get(queue[0][1]) != queue[0][0]:
            heappop(queue)


class JoinBuffer(Store):
    """Records of a stream that wait until the grace period of a join with a versioned table is over.

    A key of the changelog is a zero, the record's time (8 bytes), its key, and a number (4 bytes).
    """

    def __init__(
        self, definition: StoreDefinition, context: TaskContext, changelog: str | None
    ) -> None:
        super().__init__(definition, context, changelog)
        self._key = definition.key
        self._value = definition.value
        self._grace_ms = definition.retention_ms
        self._observed = UNKNOWN_TIME
        self._number = 0
        self._values: dict[bytes, _Buffered] = {}
        self._queue: list[bytes] = []

    def put(self, record: Record) -> bool:
        """Keep a record until it is old enough. Return False if it is already."""
        if self._observed - self._grace_ms > record.timestamp:
            return False
        self._number = (self._number + 1) & 0x7FFFFFFF
        data = self._key.encode(record.key)
        assert data is not None
        key = b"\x00" + _LONG.pack(record.timestamp) + data + _INT.pack(self._number)
        value = _Buffered(None, None, self._value.encode(record.value), self.context.record)
        self._observed = max(self._observed, record.timestamp)
        self._values[key] = value
        heappush(self._queue, key)
        self.log(key, value.encode() + _LONG.pack(0), None)
        return True

    def due(self) -> Iterator[Eviction]:
        """Yield the records that are old enough, in the order of time, key and arrival."""
        while self._queue:
            key = self._queue[0]
            value = self._values.get(key)
            if value is None:
                heappop(self._queue)
                continue
            if _LONG.unpack_from(key, 1)[0] > self._observed - self._grace_ms:
                return
            yield Eviction(self._key.decode(key[9:-4]), self._value.decode(value.new), value.record)
            heappop(self._queue)
            del self._values[key]
            self.log(key, None, None)

    def restore(
        self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Apply a record of the changelog."""
        self._observed = max(self._observed, _LONG.unpack_from(key, 1)[0])
        self._number = max(self._number, _INT.unpack_from(key, len(key) - 4)[0])
        if value is None:
            self._values.pop(key, None)
            return
        if key not in self._values:
            heappush(self._queue, key)
        self._values[key] = _Reader(value).buffered()
