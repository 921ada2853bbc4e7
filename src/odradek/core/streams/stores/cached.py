"""A store whose updates may wait in the record cache."""

from __future__ import annotations

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.stores.base import Listener, Store
from odradek.core.streams.stores.cache import CacheEntry, RecordCache, StoreCache
from odradek.core.streams.stores.definition import StoreDefinition


class CachedStore(Store):
    """Has a part of the task's record cache, if it is cached, and tells a listener what leaves it."""

    def __init__(
        self,
        definition: StoreDefinition,
        context: TaskContext,
        changelog: str | None,
        cache: RecordCache | None,
    ) -> None:
        super().__init__(definition, context, changelog)
        self._key = definition.key
        self._value = definition.value
        self._cache: StoreCache | None = self._part_of(cache)
        self._listener: Listener | None = None
        self._sends_old = False

    def _part_of(self, cache: RecordCache | None) -> StoreCache | None:
        if cache is None or not self.definition.is_cached:
            return None
        return cache.new(self._flush_entry)

    def move_to(self, context: TaskContext, cache: RecordCache | None) -> None:
        """See `Store`."""
        super().move_to(context, cache)
        self._cache = self._part_of(cache)
        self._listener = None
        self._sends_old = False

    def listen(self, listener: Listener, sends_old: bool) -> bool:
        """Set who gets the updates that leave the cache. Return whether there is a cache."""
        self._listener = listener
        self._sends_old = sends_old
        return self._cache is not None

    def flush_cache(self) -> None:
        """Write what waits in the cache, and pass it on."""
        if self._cache is not None:
            self._cache.flush()

    def _flush_entry(self, key: bytes, cached: CacheEntry) -> None:
        raise NotImplementedError
