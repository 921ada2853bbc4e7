"""Keys with one value each: the stores of tables and of processors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.records import Change, Headers, Record, Stamped
from odradek.core.streams.stores.base import LATEST
from odradek.core.streams.stores.cache import CacheEntry, RecordCache
from odradek.core.streams.stores.cached import CachedStore
from odradek.core.streams.stores.definition import Kind, StoreDefinition
from odradek.core.streams.stores.sorted_keys import SortedKeys

Entry = tuple[bytes, int]


class KeyValueStore(CachedStore):
    """Values with their time, by key. The keys are sorted when a range is first read."""

    def __init__(
        self,
        definition: StoreDefinition,
        context: TaskContext,
        changelog: str | None,
        cache: RecordCache | None,
    ) -> None:
        super().__init__(definition, context, changelog, cache)
        self._entries: dict[bytes, Entry] = {}
        self._keys: SortedKeys | None = None
        self._is_timestamped = definition.kind is Kind.TIMESTAMPED
        self._logs_headers = definition.logs_headers
        self._overhead = 8 if self._is_timestamped else 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Any) -> Stamped | None:
        """Return the value of a key and its time."""
        data = self._key.encode(key)
        assert data is not None
        found = self.raw(data)
        return None if found is None else Stamped(self._value.decode(found[0]), found[1])

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Set the value of a key; None deletes it."""
        data = self._key.encode(key)
        assert data is not None
        encoded = self._value.encode(value)
        self.put_raw(data, None if encoded is None else (encoded, timestamp))
        return LATEST

    def raw(self, key: bytes) -> Entry | None:
        """Return the encoded value of an encoded key."""
        cache = self._cache
        if cache is None:
            return self._entries.get(key)
        entry = cache.get(key)
        if entry is not None:
            cached: Entry | None = entry.value
            return cached
        found = self._entries.get(key)
        if found is not None:
            cache.keep(key, found, len(found[0]) + self._overhead)
        return found

    def put_raw(self, key: bytes, entry: Entry | None) -> None:
        """Set the encoded value of an encoded key."""
        if self._cache is None:
            self._write(key, entry)
            return
        size = 0 if entry is None else len(entry[0]) + self._overhead
        self._cache.put(key, entry, size, self.context.record)

    def between(self, first: bytes | None, last: bytes | None) -> Iterator[tuple[bytes, Entry]]:
        """Yield encoded keys and values from `first` to `last`, both included, in order."""
        if self._keys is None:
            self._keys = SortedKeys(self._entries)
        found = {key: self._entries[key] for key in self._keys.between(first, last)}
        if self._cache is None:
            yield from found.items()
            return
        merged: dict[bytes, Entry | None] = dict(found)
        merged.update(
            (key, value)
            for key, value in self._cache.items()
            if (first is None or key >= first) and (last is None or key <= last)
        )
        for key in sorted(merged):
            entry = merged[key]
            if entry is not None:
                yield key, entry

    def restore(
        self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Apply a record of the changelog."""
        self._set(key, None if value is None else (value, timestamp))

    def _set(self, key: bytes, entry: Entry | None) -> None:
        entries = self._entries
        if self._keys is None:
            if entry is None:
                entries.pop(key, None)
            else:
                entries[key] = entry
        elif entry is None:
            if entries.pop(key, None) is not None:
                self._keys.remove(key)
        else:
            if key not in entries:
                self._keys.add(key)
            entries[key] = entry

    def _write(self, key: bytes, entry: Entry | None) -> None:
        self._set(key, entry)
        record = self.context.record
        headers = record.headers if self._logs_headers else ()
        if entry is None:
            self.log(key, None, record.timestamp, headers)
        elif self._is_timestamped:
            self.log(key, entry[0], entry[1], headers)
        else:
            self.log(key, entry[0], record.timestamp, headers)

    def _flush_entry(self, key: bytes, cached: CacheEntry) -> None:
        new: Entry | None = cached.value
        context = self.context
        current = context.record
        if self._listener is None:
            context.enter(cached.record)
            self._write(key, new)
            context.enter(current)
            return
        old = self._entries.get(key) if new is None or self._sends_old else None
        if new is None and old is None:
            return
        context.enter(cached.record)
        self._write(key, new)
        decode = self._value.decode
        change = Change(
            None if new is None else decode(new[0]),
            decode(old[0]) if self._sends_old and old is not None else None,
        )
        timestamp = cached.record.timestamp if new is None else new[1]
        self._listener(Record(self._key.decode(key), change, timestamp, cached.record.headers))
        context.enter(current)


class ListStore(KeyValueStore):
    """Unmatched records of a stream join: a list of values for each time, side and key.

    A key is the time (8 bytes), 1 for the left and 0 for the right side, and the record's key. A value
    in the list is 1 or 0 for the side, and the record's value. The list is encoded as Kafka's
    ListSerializer does it.
    """

    def add(self, key: bytes, value: bytes) -> None:
        """Add a value to the list of a key."""
        before = self._entries.get(key)
        encoded = _list_with(None if before is None else before[0], value)
        timestamp = self.context.record.timestamp
        self.put_raw(key, (encoded, timestamp))

    def remove(self, key: bytes) -> None:
        """Remove the list of a key, and say so in the changelog even if there was none."""
        self.put_raw(key, None)

    def remove_if_present(self, key: bytes) -> None:
        """Remove the list of a key."""
        if key in self._entries:
            self.put_raw(key, None)

    def all(self) -> list[tuple[bytes, bytes]]:
        """Return all keys and values in the order of time, side, key and arrival."""
        return [
            (key, value) for key, entry in self.between(None, None) for value in _values(entry[0])
        ]


_VARIABLE_SIZE = b"\x01"
"""The first byte of a list whose elements have their lengths before them."""


def _list_with(before: bytes | None, value: bytes) -> bytes:
    count = 0 if before is None else int.from_bytes(before[1:5], "big")
    rest = b"" if before is None else before[5:]
    size = (count + 1).to_bytes(4, "big")
    return _VARIABLE_SIZE + size + rest + len(value).to_bytes(4, "big") + value


def _values(data: bytes) -> Iterator[bytes]:
    place = 5
    while place < len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        yield data[place + 4 : place + 4 + size]
        place += 4 + size
