"""The record cache: a store's updates wait in it, one for each key, until the next commit.

All caches of a task share `RecordCache.max_bytes`. If they are fuller than that, the cache that got
an update gives away its least recently used entries. Sizes are counted as Kafka Streams does, so that
the same entries leave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.core.streams.model.records import RecordContext

_CLEAN = RecordContext("", -1, -1, -1, ())
_NODE_BYTES = 24


class CacheEntry:
    """A cached value, and the record from which it comes."""

    __slots__ = ("is_dirty", "record", "size", "value")

    def __init__(self, value: Any, value_size: int, record: RecordContext, is_dirty: bool) -> None:
        self.value = value
        self.record = record
        self.is_dirty = is_dirty
        self.size = 1 + value_size + record.size()

    def clean(self) -> None:
        """Note that the store has the value."""
        self.is_dirty = False


Flush = Callable[[bytes, CacheEntry], None]


class StoreCache:
    """The cache of one store. The order of `_entries` is that of their last use."""

    def __init__(self, owner: RecordCache, flush: Flush) -> None:
        self._owner = owner
        self._flush = flush
        self._entries: dict[bytes, CacheEntry] = {}
        self._dirty: dict[bytes, None] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> CacheEntry | None:
        """Return the entry of a key, which becomes the most recently used."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._entries[key] = entry
        return entry

    def put(self, key: bytes, value: Any, value_size: int, record: RecordContext) -> None:
        """Add an update."""
        self._put(key, CacheEntry(value, value_size, record, True))
        self._dirty.pop(key, None)
        self._dirty[key] = None
        self._owner.make_room(self)

    def keep(self, key: bytes, value: Any, value_size: int) -> None:
        """Add what was read from the store."""
        self._put(key, CacheEntry(value, value_size, _CLEAN, False))
        self._owner.make_room(self)

    def _put(self, key: bytes, entry: CacheEntry) -> None:
        before = self._entries.pop(key, None)
        if before is not None:
            self.size_bytes -= len(key) + _NODE_BYTES + before.size
        self._entries[key] = entry
        self.size_bytes += len(key) + _NODE_BYTES + entry.size

    def flush(self) -> None:
        """Write all updates to the store, in the order in which their keys were last updated."""
        self._write([])

    def evict(self) -> None:
        """Remove the least recently used entry. If it is an update, write all updates."""
        key = next(iter(self._entries))
        entry = self._entries.pop(key)
        self.size_bytes -= len(key) + _NODE_BYTES + entry.size
        if entry.is_dirty:
            self._dirty.pop(key, None)
            self._write([(key, entry)])

    def _write(self, entries: list[tuple[bytes, CacheEntry]]) -> None:
        deleted = []
        for key in self._dirty:
            entry = self._entries[key]
            entries.append((key, entry))
            entry.clean()
            if entry.value is None:
                deleted.append(key)
        self._dirty.clear()
        for key, entry in entries:
            self._flush(key, entry)
        for key in deleted:
            gone = self._entries.pop(key, None)
            if gone is not None:
                self._dirty.pop(key, None)
                self.size_bytes -= len(key) + _NODE_BYTES + gone.size

    def items(self) -> list[tuple[bytes, Any]]:
        """Return all keys and values in the order of the keys. Deleted keys have the value None."""
        return [(key, self._entries[key].value) for key in sorted(self._entries)]

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()
        self._dirty.clear()
        self.size_bytes = 0


class RecordCache:
    """The caches of a task."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._caches: list[StoreCache] = []

    def new(self, flush: Flush) -> StoreCache:
        """Return a cache for a store. `flush` writes one entry to the store."""
        cache = StoreCache(self, flush)
        self._caches.append(cache)
        return cache

    def make_room(self, cache: StoreCache) -> None:
        """Remove entries of `cache` until all caches together are small enough."""
        while len(cache) and sum(each.size_bytes for each in self._caches) > self._max_bytes:
            cache.evict()
