"""Aggregates of sessions by key, end and start; old sessions expire."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from struct import Struct
from typing import Any

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.records import UNKNOWN_TIME, Change, Headers, Record, Windowed
from odradek.core.streams.model.serdes import LONG_MAX
from odradek.core.streams.stores.cache import CacheEntry, RecordCache
from odradek.core.streams.stores.cached import CachedStore
from odradek.core.streams.stores.definition import StoreDefinition

_SUFFIX = Struct(">qq")


class SessionStore(CachedStore):
    """Sessions. Its changelog has the keys: key, end and start of the session (8 bytes each)."""

    def __init__(
        self,
        definition: StoreDefinition,
        context: TaskContext,
        changelog: str | None,
        cache: RecordCache | None,
    ) -> None:
        super().__init__(definition, context, changelog, cache)
        self._retention_ms = definition.retention_ms
        self._in_memory = definition.in_memory
        self._segment_ms = max(definition.retention_ms // 2, 60_000)
        self._observed = UNKNOWN_TIME
        self._ends: list[int] = []
        self._by_end: dict[int, dict[bytes, dict[int, bytes]]] = {}

    def get(self, key: Any, start: int, end: int) -> Any:
        """Return the aggregate of a session."""
        data = self._key.encode(key)
        assert data is not None
        if self._cache is not None:
            cached = self._cache.get(self._cache_key(data, start, end))
            if cached is not None:
                return self._value.decode(cached.value)
        return self._value.decode(self._stored(data, start, end))

    def put(self, session: Windowed, value: Any) -> None:
        """Set the aggregate of a session; None removes it."""
        data = self._key.encode(session.key)
        assert data is not None
        encoded = self._value.encode(value)
        if self._cache is None:
            self._write(data, session.start, session.end, encoded)
            return
        self._cache.put(
            self._cache_key(data, session.start, session.end),
            encoded,
            0 if encoded is None else len(encoded),
            self.context.record,
        )

    def find(self, key: Any, earliest_end: int, latest_start: int) -> list[tuple[Windowed, Any]]:
        """Return a key's sessions that overlap the given time, by end."""
        data = self._key.encode(key)
        assert data is not None
        found: dict[tuple[int, int], bytes | None] = {}
        for end, keys in self._range(earliest_end, LONG_MAX):
            for start in sorted(keys.get(data, ()), reverse=True):
                if start <= latest_start:
                    found[end, start] = keys[data][start]
        if self._cache is not None:
            for cached_key, value in self._cache.items():
                end, start = _SUFFIX.unpack_from(cached_key, len(cached_key) - 16)
                if cached_key[8:-16] == data and end >= earliest_end and start <= latest_start:
                    found[end, start] = value
            found = dict(sorted(found.items()))
        return [
            (Windowed(key, start, end), self._value.decode(value))
            for (end, start), value in found.items()
            if value is not None
        ]

    def ended_between(self, first: int, last: int) -> list[tuple[Windowed, Any]]:
        """Return all sessions with ends from `first` to `last`, both included, by end.

        Those with the same end are in the order of the store in Java: that in memory has them by key, that
        in files by start and key (RocksDBTimeOrderedSessionStore).
        """
        decode = self._key.decode
        found = []
        for end, keys in self._range(first, last, self._in_memory):
            if self._in_memory:
                places = [(start, key) for key in sorted(keys) for start in sorted(keys[key])[::-1]]
            else:
                places = sorted((start, key) for key, starts in keys.items() for start in starts)
            found += [
                (Windowed(decode(key), start, end), self._value.decode(keys[key][start]))
                for start, key in places
            ]
        return found

    def restore(
        self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Apply a record of the changelog."""
        end, start = _SUFFIX.unpack_from(key, len(key) - 16)
        self._set(key[:-16], start, end, value)

    def _cache_key(self, key: bytes, start: int, end: int) -> bytes:
        segment = end // self._segment_ms
        return segment.to_bytes(8, "big") + key + _SUFFIX.pack(end, start)

    def _range(
        self, first: int, last: int, is_exact: bool = True
    ) -> Iterator[tuple[int, dict[bytes, dict[int, bytes]]]]:
        if is_exact:
            first = max(first, self._observed - self._retention_ms + 1)
        ends = self._ends
        for end in ends[bisect_left(ends, first) : bisect_right(ends, last)]:
            yield end, self._by_end[end]

    def _stored(self, key: bytes, start: int, end: int) -> bytes | None:
        if end <= self._observed - self._retention_ms:
            return None
        keys = self._by_end.get(end)
        starts = None if keys is None else keys.get(key)
        return None if starts is None else starts.get(start)

    def _is_expired(self, end: int) -> bool:
        limit = self._observed - self._retention_ms
        if self._in_memory:
            return end <= limit
        return end // self._segment_ms < max(limit, 0) // self._segment_ms

    def _set(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        if end > self._observed:  # by a tombstone too, as in Java
            self._observed = end
            self._expire()
        if self._is_expired(end):
            self.context.drop("expired sessions")
            return
        if value is not None:
            keys = self._by_end.get(end)
            if keys is None:
                keys = self._by_end[end] = {}
                insort(self._ends, end)
            keys.setdefault(key, {})[start] = value
            return
        keys = self._by_end.get(end)
        starts = None if keys is None else keys.get(key)
        if keys is None or starts is None or starts.pop(start, None) is None:
            return
        if not starts:
            del keys[key]
            if not keys:
                del self._by_end[end]
                del self._ends[bisect_left(self._ends, end)]

    def _expire(self) -> None:
        ends = self._ends
        count = 0
        while count < len(ends) and self._is_expired(ends[count]):
            del self._by_end[ends[count]]
            count += 1
        del ends[:count]

    def _write(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        self._set(key, start, end, value)
        self.log(key + _SUFFIX.pack(end, start), value, self.context.record.timestamp)

    def _flush_entry(self, cached_key: bytes, cached: CacheEntry) -> None:
        key = cached_key[8:-16]
        end, start = _SUFFIX.unpack_from(cached_key, len(cached_key) - 16)
        new: bytes | None = cached.value
        context = self.context
        current = context.record
        if self._listener is None:
            context.enter(cached.record)
            self._write(key, start, end, new)
            context.enter(current)
            return
        old = self._stored(key, start, end) if new is None or self._sends_old else None
        if new is None and old is None:
            return
        context.enter(cached.record)
        self._write(key, start, end, new)
        decode = self._value.decode
        change = Change(decode(new), decode(old) if self._sends_old else None)
        session = Windowed(self._key.decode(key), start, end)
        self._listener(Record(session, change, end, cached.record.headers))
        context.enter(current)
