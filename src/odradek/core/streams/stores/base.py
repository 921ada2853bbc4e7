"""What all stores have in common."""

from __future__ import annotations

from collections.abc import Callable

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.records import Headers, Produced, Record
from odradek.core.streams.stores.cache import RecordCache
from odradek.core.streams.stores.definition import StoreDefinition

NOT_PUT = 0
LATEST = 1
OLDER = 2
"""What `put` did with a value: dropped it as too old, stored it as the newest, or behind a newer one."""

Listener = Callable[[Record], None]


class Store:
    """A store of one task. Each change is written to the changelog, which restores the store."""

    is_versioned = False

    def __init__(
        self, definition: StoreDefinition, context: TaskContext, changelog: str | None
    ) -> None:
        self.name = definition.name
        self.definition = definition
        self.context = context
        self.changelog = changelog
        """The name of the changelog topic; None if the store has none."""

    def move_to(self, context: TaskContext, _cache: RecordCache | None) -> None:
        """Belong to another task with the same content. What was put before has been committed."""
        self.context = context

    def log(
        self, key: bytes, value: bytes | None, timestamp: int | None, headers: Headers = ()
    ) -> None:
        """Write a change to the changelog."""
        if self.changelog is not None:
            context = self.context
            context.output.append(
                Produced(self.changelog, context.partition, key, value, timestamp, headers)
            )

    def restore(
        self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Apply a record of the changelog."""
        raise NotImplementedError

    def listen(self, _listener: Listener, _sends_old: bool) -> bool:
        """Set who gets the updates that leave the cache. Return whether there is a cache."""
        return False

    def flush_cache(self) -> None:
        """Write what waits in the cache, and pass it on."""

    def flush(self) -> None:
        """Write what has to be in the changelog before a commit."""
