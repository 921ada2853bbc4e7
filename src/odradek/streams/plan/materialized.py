"""How a table is stored."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.core.streams.model.durations import Duration, milliseconds
from odradek.core.streams.model.serdes import Serde
from odradek.core.streams.stores.definition import Kind, StoreDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Options of a store; `store="counts"` is short for `store=Store(name="counts")`.

    Attributes:
        name: the name, by which processors and queries find the store. Without it, the name is
            generated.
        cached: whether updates wait in the record cache.
        logged: whether there is a changelog topic, from which the store is restored.
        retention: how long windows are kept; at least their size and grace.
        history: keep the versions of each key for this time: the table is versioned.
        in_memory: expire old windows exactly, as Kafka Streams' in-memory stores do.
        topic_settings: settings of the changelog topic.
    """

    name: str | None = None
    cached: bool = True
    logged: bool = True
    retention: Duration | None = None
    history: Duration | None = None
    in_memory: bool | None = None
    topic_settings: tuple[tuple[str, str], ...] = ()


def options(store: str | Store | None) -> Store:
    """Return the options of a store."""
    return store if isinstance(store, Store) else Store(name=store)


def key_value_store(
    name: str, store: Store, key: Serde, value: Serde, in_memory: bool
) -> StoreDefinition:
    """Return the store of a table."""
    is_versioned = store.history is not None
    return StoreDefinition(
        name=name,
        kind=Kind.VERSIONED if is_versioned else Kind.TIMESTAMPED,
        key=key,
        value=value,
        is_logged=store.logged,
        is_cached=store.cached and not is_versioned,
        history_ms=milliseconds(store.history) if store.history is not None else 0,
        in_memory=in_memory if store.in_memory is None else store.in_memory,
        log_settings=dict(store.topic_settings),
    )


def window_store(
    name: str,
    store: Store,
    key: Serde,
    value: Serde,
    in_memory: bool,
    *,
    kind: Kind,
    size_ms: int,
    needed_ms: int,
    can_cache: bool = True,
    emits_final: bool = False,
) -> StoreDefinition:
    """Return the store of a windowed table.

    Raises:
        ValueError: the retention is less than what the windows need.
    """
    retention_ms = needed_ms if store.retention is None else milliseconds(store.retention)
    if retention_ms < needed_ms:
        raise ValueError(
            f"The retention period of the store {name} must be no smaller than {needed_ms} ms, its "
            f"windows and their grace period. Got {retention_ms} ms."
        )
    return StoreDefinition(
        name=name,
        kind=kind,
        key=key,
        value=value,
        is_logged=store.logged,
        is_cached=store.cached and can_cache,
        retention_ms=retention_ms,
        window_size_ms=size_ms,
        emits_final=emits_final,
        in_memory=in_memory if store.in_memory is None else store.in_memory,
        log_settings=dict(store.topic_settings),
    )
