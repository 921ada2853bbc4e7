"""Tables that remember their past: the versions of each key, for a time.

A version is valid from its time until that of the next one. `history_ms` behind the highest time that
was put, versions are forgotten, and later ones for such times are refused.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.records import UNKNOWN_TIME, Headers, Stamped
from odradek.core.streams.stores.base import LATEST, NOT_PUT, OLDER, Store
from odradek.core.streams.stores.definition import StoreDefinition


class _Versions:
    """The times and values of one key, in ascending order. A deletion is a version without value."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.values: list[bytes | None] = []

    def put(self, timestamp: int, value: bytes | None) -> None:
        """Add or replace a version."""
        at = bisect_left(self.times, timestamp)
        if at < len(self.times) and self.times[at] == timestamp:
            self.values[at] = value
        else:
            self.times.insert(at, timestamp)
            self.values.insert(at, value)

    def forget(self, limit: int) -> None:
        """Remove the versions that a later one replaced before `limit`."""
        keep = bisect_right(self.times, limit) - 1
        if keep > 0:
            del self.times[:keep]
            del self.values[:keep]


class VersionedStore(Store):
    """The store of a versioned table."""

    is_versioned = True

    def __init__(
        self, definition: StoreDefinition, context: TaskContext, changelog: str | None
    ) -> None:
        super().__init__(definition, context, changelog)
        self._key = definition.key
        self._value = definition.value
        self._history_ms = definition.history_ms
        self._observed = UNKNOWN_TIME
        self._keys: dict[bytes, _Versions] = {}

    def __len__(self) -> int:
        return sum(1 for each in self._keys.values() if each.values[-1] is not None)

    def get(self, key: Any, as_of: int | None = None) -> Stamped | None:
        """Return the value of a key and the time from which it is valid, now or at a time."""
        data = self._key.encode(key)
        assert data is not None
        versions = self._keys.get(data)
        if versions is None:
            return None
        at = len(versions.times) - 1
        if as_of is not None and versions.times[at] > as_of:
            if as_of < self._observed - self._history_ms:
                return None
            at = bisect_right(versions.times, as_of) - 1
            if at < 0:
                return None
        value = versions.values[at]
        return None if value is None else Stamped(self._value.decode(value), versions.times[at])

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Add a version; None is a deletion. Return what became of it."""
        data = self._key.encode(key)
        assert data is not None
        encoded = self._value.encode(value)
        result = self._put(data, encoded, timestamp)
        self.log(data, encoded, timestamp)
        return result

    def restore(
        self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Apply a record of the changelog."""
        self._put(key, value, timestamp)

    def _put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        if timestamp < self._observed - self._history_ms:
            self.context.drop("expired versions")
            return NOT_PUT
        self._observed = max(self._observed, timestamp)
        versions = self._keys.get(key)
        if versions is None:
            versions = self._keys[key] = _Versions()
        versions.put(timestamp, value)
        is_latest = versions.times[-1] == timestamp
        versions.forget(self._observed - self._history_ms)
        return LATEST if is_latest else OLDER
