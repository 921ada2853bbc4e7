"""Values by key and start of a window; old windows expire.

A window is kept until its start is `retention_ms` behind the highest start that was put. Values in
memory expire exactly then. Kafka Streams keeps files in segments: `in_memory` False does as these do,
so a value that is too late for the retention is kept if its segment exists, but not found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from struct import Struct
from typing import Any

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.records import (
    UNKNOWN_TIME,
    Change,
    Headers,
    Record,
    Stamped,
    Windowed,
)
from odradek.core.streams.model.serdes import LONG_MAX
from odradek.core.streams.stores.base import Store
from odradek.core.streams.stores.cache import CacheEntry, RecordCache
from odradek.core.streams.stores.cached import CachedStore
from odradek.core.streams.stores.definition import StoreDefinition

_SUFFIX = Struct(">qi")
Entry = tuple[bytes, int]


class WindowStore(CachedStore):
    """The values of windows. Its changelog has the keys: key, start (8 bytes), number (4 bytes)."""

    def __init__(
        self,
        definition: StoreDefinition,
        context: TaskContext,
        changelog: str | None,
        cache: RecordCache | None,
    ) -> None:
        super().__init__(definition, context, changelog, cache)
        self._size_ms = definition.window_size_ms
        self._retention_ms = definition.retention_ms
        self._in_memory = definition.in_memory
        self._slack_ms = 1 if definition.emits_final and not definition.in_memory else 0
        self._segment_ms = max(definition.retention_ms // 2, 60_000)
        self._observed = UNKNOWN_TIME
        self._segments: dict[int, dict[bytes, Entry]] = {}
        self._starts: list[int] = []
        self._overhead = 8 if definition.is_timestamped else 0

    def fetch(self, key: Any, start: int) -> Stamped | None:
        """Return the value of a window."""
        data = self._key.encode(key)
        assert data is not None
        if self._cache is not None:
            cached = self._cache.get(self._cache_key(data, start))
            if cached is not None:
                found: Entry | None = cached.value
                return None if found is None else Stamped(self._value.decode(found[0]), found[1])
        found = self._stored(data, start)
        return None if found is None else Stamped(self._value.decode(found[0]), found[1])

    def put(self, key: Any, value: Any, timestamp: int, start: int) -> None:
        """Set the value of a window; None deletes it."""
        data = self._key.encode(key)
        assert data is not None
        encoded = self._value.encode(value)
        entry = None if encoded is None else (encoded, timestamp)
        if self._cache is None:
            self._write(data, entry, start)
            return
        size = 0 if entry is None else len(entry[0]) + self._overhead
        self._cache.put(self._cache_key(data, start), entry, size, self.context.record)

    def between(self, key: Any, first: int, last: int) -> list[tuple[int, Stamped]]:
        """Return the starts from `first` to `last`, both included, of a key's windows, and values."""
        data = self._key.encode(key)
        assert data is not None
        found: dict[int, Entry | None] = {
            start: entries[data] for start, entries in self._range(first, last) if data in entries
        }
        if self._cache is not None:
            for cached_key, value in self._cache.items():
                start = _start(cached_key)
                if first <= start <= last and cached_key[8:-12] == data:
                    found[start] = value
        decode = self._value.decode
        return [
            (start, Stamped(decode(entry[0]), entry[1]))
            for start, entry in sorted(found.items())
            if entry is not None
        ]

    def all_between(self, first: int, last: int) -> list[tuple[Windowed, Stamped]]:
        """Return all windows with starts from `first` to `last`, both included.

        The order is that of the starts, then of the keys' bytes.
        """
        found: dict[tuple[int, bytes], Entry | None] = {}
        for start, entries in self._range(first, last):
            for key in sorted(entries):
                found[start, key] = entries[key]
        if self._cache is not None:
            for cached_key, value in self._cache.items():
                start = _start(cached_key)
                if first <= start <= last:
                    found[start, cached_key[8:-12]] = value
            found = dict(sorted(found.items(), key=lambda item: item[0]))
        return [
            (self._window(key, start), Stamped(self._value.decode(entry[0]), entry[1]))
            for (start, key), entry in found.items()
            if entry is not None
        ]

    def restore(
        self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Apply a record of the changelog."""
        start = _SUFFIX.unpack_from(key, len(key) - 12)[0]
        self._set(key[:-12], None if value is None else (value, timestamp), start)

    def _window(self, key: bytes, start: int) -> Windowed:
        return Windowed(self._key.decode(key), start, min(start + self._size_ms, LONG_MAX))

    def _cache_key(self, key: bytes, start: int) -> bytes:
        """Return the key in the cache: the segment, and the key of the changelog."""
        segment = start // self._segment_ms
        return segment.to_bytes(8, "big") + key + _SUFFIX.pack(start, 0)

    def _stored(self, key: bytes, start: int) -> Entry | None:
        if start <= self._observed - self._retention_ms - self._slack_ms:
            return None
        entries = self._segments.get(start)
        return None if entries is None else entries.get(key)

    def _range(self, first: int, last: int) -> Iterator[tuple[int, dict[bytes, Entry]]]:
        first = max(first, self._observed - self._retention_ms + 1 - self._slack_ms)
        starts = self._starts
        for start in starts[bisect_left(starts, first) : bisect_right(starts, last)]:
            yield start, self._segments[start]

    def _is_expired(self, start: int) -> bool:
        limit = self._observed - self._retention_ms
        if self._in_memory:
            return start <= limit
        return _quotient(start, self._segment_ms) < _quotient(limit, self._segment_ms)

    def _expire(self) -> None:
        starts = self._starts
        count = 0
        while count < len(starts) and self._is_expired(starts[count]):
            del self._segments[starts[count]]
            count += 1
        del starts[:count]

    def _set(self, key: bytes, entry: Entry | None, start: int) -> None:
        if start > self._observed:
            self._observed = start
            self._expire()
        if self._is_expired(start):
            self.context.drop("expired windows")
            return
        entries = self._segments.get(start)
        if entry is not None:
            if entries is None:
                entries = self._segments[start] = {}
                insort(self._starts, start)
            entries[key] = entry
        elif entries is not None:
            entries.pop(key, None)
            if not entries:
                del self._segments[start]
                del self._starts[bisect_left(self._starts, start)]

    def _write(self, key: bytes, entry: Entry | None, start: int) -> None:
        self._set(key, entry, start)
        log_key = key + _SUFFIX.pack(start, 0)
        if entry is None:
            self.log(log_key, None, self.context.record.timestamp)
        else:
            self.log(log_key, entry[0], entry[1])

    def _flush_entry(self, cached_key: bytes, cached: CacheEntry) -> None:
        key, start = cached_key[8:-12], _start(cached_key)
        new: Entry | None = cached.value
        context = self.context
        current = context.record
        if self._listener is None:
            context.enter(cached.record)
            self._write(key, new, start)
            context.enter(current)
            return
        old = self._stored(key, start) if new is None or self._sends_old else None
        if new is None and old is None:
            return
        context.enter(cached.record)
        self._write(key, new, start)
        decode = self._value.decode
        change = Change(
            None if new is None else decode(new[0]),
            decode(old[0]) if self._sends_old and old is not None else None,
        )
        timestamp = cached.record.timestamp if new is None else new[1]
        self._listener(Record(self._window(key, start), change, timestamp, cached.record.headers))
        context.enter(current)


class JoinStore(Store):
    """The records of one side of a stream join: all records of a key and time, in order."""

    def __init__(
        self, definition: StoreDefinition, context: TaskContext, changelog: str | None
    ) -> None:
        super().__init__(definition, context, changelog)
        self._key = definition.key
        self._value = definition.value
        self._retention_ms = definition.retention_ms
        self._in_memory = definition.in_memory
        self._segment_ms = max(definition.retention_ms // 2, 60_000)
        self._observed = UNKNOWN_TIME
        self._number = 0
        self._segments: dict[int, dict[bytes, list[bytes]]] = {}
        self._starts: list[int] = []

    def put(self, key: Any, value: Any, time: int) -> None:
        """Add a record. A record without value is only written to the changelog."""
        data = self._key.encode(key)
        assert data is not None
        encoded = self._value.encode(value)
        self._set(data, encoded, time)
        self._number = (self._number + 1) & 0x7FFFFFFF
        record = self.context.record
        place = data + _SUFFIX.pack(time, self._number)
        self.log(place, encoded, record.timestamp, record.headers)

    def between(self, key: Any, first: int, last: int) -> list[tuple[int, Any]]:
        """Return times from `first` to `last`, both included, and values of a key's records."""
        data = self._key.encode(key)
        assert data is not None
        first = max(first, self._observed - self._retention_ms + 1)
        starts = self._starts
        decode = self._value.decode
        return [
            (start, decode(value))
            for start in starts[bisect_left(starts, first) : bisect_right(starts, last)]
            for value in self._segments[start].get(data, ())
        ]

    def restore(
        self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Apply a record of the changelog."""
        time, number = _SUFFIX.unpack_from(key, len(key) - 12)
        self._number = max(self._number, number)
        self._set(key[:-12], value, time)

    def _is_expired(self, time: int) -> bool:
        limit = self._observed - self._retention_ms
        if self._in_memory:
            return time <= limit
        return _quotient(time, self._segment_ms) < _quotient(limit, self._segment_ms)

    def _set(self, key: bytes, value: bytes | None, time: int) -> None:
        if value is None and not self._in_memory:
            return
        if time > self._observed:
            self._observed = time
            starts = self._starts
            count = 0
            while count < len(starts) and self._is_expired(starts[count]):
                del self._segments[starts[count]]
                count += 1
            del starts[:count]
        if self._is_expired(time):
            self.context.drop("expired windows")
            return
        if value is None:
            return
        entries = self._segments.get(time)
        if entries is None:
            entries = self._segments[time] = {}
            insort(self._starts, time)
        entries.setdefault(key, []).append(value)


def _start(cached_key: bytes) -> int:
    start: int = _SUFFIX.unpack_from(cached_key, len(cached_key) - 12)[0]
    return start


def _quotient(number: int, divisor: int) -> int:
    """Return Java's quotient, which is rounded towards zero."""
    return number // divisor if number >= 0 else -(-number // divisor)
