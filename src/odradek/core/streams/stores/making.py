"""Makes stores from their definitions."""

from __future__ import annotations

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.stores.base import Store
from odradek.core.streams.stores.buffers import ChangeBuffer, JoinBuffer
from odradek.core.streams.stores.cache import RecordCache
from odradek.core.streams.stores.definition import Kind, StoreDefinition
from odradek.core.streams.stores.key_value import KeyValueStore, ListStore
from odradek.core.streams.stores.session import SessionStore
from odradek.core.streams.stores.versioned import VersionedStore
from odradek.core.streams.stores.window import JoinStore, WindowStore


def make_store(
    definition: StoreDefinition,
    context: TaskContext,
    changelog: str | None,
    cache: RecordCache | None,
) -> Store:
    """Return an empty store. `cache` is None if the program has no record cache."""
    match definition.kind:
        case Kind.KEY_VALUE | Kind.TIMESTAMPED:
            return KeyValueStore(definition, context, changelog, cache)
        case Kind.VERSIONED:
            return VersionedStore(definition, context, changelog)
        case Kind.WINDOW:
            if definition.retains_duplicates:
                return JoinStore(definition, context, changelog)
            return WindowStore(definition, context, changelog, cache)
        case Kind.SESSION:
            return SessionStore(definition, context, changelog, cache)
        case Kind.LIST:
            return ListStore(definition, context, changelog, None)
        case Kind.SUPPRESS:
            return ChangeBuffer(definition, context, changelog)
        case Kind.JOIN_BUFFER:
            return JoinBuffer(definition, context, changelog)
