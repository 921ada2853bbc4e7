"""Reads the stores of the tasks that run in this process.

A key-value store has `get`, `range` and `all`; a store of windows has `fetch` and `all`, one of sessions `fetch`. What is
read includes what is not committed yet, as in Kafka Streams. While a task moves or is restored, a query waits, at
most for its timeout; with `stale`, also what a standby task has read so far is an answer.

Queries may come from any thread. Each has the lock of the stores while it reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from odradek.client.core.partitioners import partition_for_key
from odradek.client.core.streams_member import Endpoint, EndpointPartitions
from odradek.core.streams.model.errors import EncodingError
from odradek.core.streams.model.records import Stamped, Windowed
from odradek.core.streams.model.serdes import LONG_MAX, Serde
from odradek.core.streams.stores.base import Store
from odradek.core.streams.stores.definition import StoreDefinition
from odradek.core.streams.stores.key_value import KeyValueStore, ListStore
from odradek.core.streams.stores.session import SessionStore
from odradek.core.streams.stores.versioned import VersionedStore
from odradek.core.streams.stores.window import WindowStore
from odradek.core.streams.topology.definition import Topology
from odradek.streams.process.layout import Layout
from odradek.streams.process.task_states import TaskId
from odradek.streams.process.tasks import Tasks
from odradek.streams.queries.errors import (
    NoSuchStoreError,
    QueryError,
    StoreMovesError,
    StoreNotHereError,
)

WAIT_SECONDS = 5.0
"""How long a query waits for a task that moves, by default."""
_PAUSE_SECONDS = 0.02
_TIME_MIN = -(2**63)

Hosts = Callable[[], Mapping[Endpoint, EndpointPartitions]]


class KeyMetadata(NamedTuple):
    """Where a key is."""

    partition: int
    active: str | None
    """HOST:PORT of the process that has the key; None: it is not known."""
    standby: tuple[str, ...]


class Queries:
    """Reads of all stores of a worker."""

    def __init__(
        self,
        topology: Topology,
        layout: Layout,
        tasks: Tasks,
        global_stores: Mapping[str, Store],
        hosts: Hosts,
        own: Endpoint | None = None,
    ) -> None:
        """`hosts` returns which process with an endpoint has which partitions; `own` is this process."""
        self._topology = topology
        self._tasks = tasks
        self._global_stores = global_stores
        self._hosts = hosts
        self._own = own
        self._counts = dict(layout.tasks)
        self._subtopologies: dict[str, int] = {}
        self._sources: dict[int, list[str]] = {}
        for each in layout.subtopologies:
            self._sources[each.number] = each.source_topics
            for name in topology.store_names(each.nodes):
                if name not in topology.global_stores:
                    self._subtopologies[name] = each.number

    # -- what there is --------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The names of the stores that can be read."""
        return sorted({*self._subtopologies, *self._global_stores})

    def definition(self, name: str) -> StoreDefinition:
        """Return what a store is.

        Raises:
            NoSuchStoreError: there is none with this name.
        """
        found = self._topology.stores.get(name) or self._topology.global_stores.get(name)
        if found is None or name not in self.names:
            raise NoSuchStoreError(
                f"there is no store {name!r}; there are {', '.join(self.names) or 'none'}"
            )
        return found

    def is_global(self, name: str) -> bool:
        """Return whether each process has the whole store."""
        return name in self._global_stores

    def partitions(self, name: str) -> int:
        """Return how many partitions a store has."""
        return 1 if self.is_global(name) else self._counts[self._subtopologies[name]]

    def partition_of(self, name: str, key: Any) -> int:
        """Return the partition of a key, as the default partitioner chooses it.

        Raises:
            NoSuchStoreError: there is no such store.
            QueryError: the key has another type.
        """
        data = _encoded(self.definition(name).key, key)
        return 0 if self.is_global(name) else partition_for_key(data, self.partitions(name))

    def metadata(self, name: str, key: Any, partition: int | None = None) -> KeyMetadata:
        """Return where a key is. Without the default partitioner, say its partition."""
        place = self.partition_of(name, key) if partition is None else partition
        active, standby = self.hosts_of(name, place)
        return KeyMetadata(place, None if active is None else str(active), tuple(map(str, standby)))

    def hosts_of(self, name: str, partition: int) -> tuple[Endpoint | None, list[Endpoint]]:
        """Return the process that has a partition of a store, and those that have it as standby."""
        if self.is_global(name):
            return None, []
        sources = self._sources[self._subtopologies[name]]
        active, standby = None, []
        for endpoint, held in self._hosts().items():
            if any((topic, partition) in held.active for topic in sources):
                active = endpoint
            elif any((topic, partition) in held.standby for topic in sources):
                standby.append(endpoint)
        return active, standby

    # -- reading --------------------------------------------------------------------------------

    def read(
        self,
        name: str,
        partition: int,
        read: Callable[[Any], Any],
        *,
        stale: bool = False,
        timeout: float = WAIT_SECONDS,
    ) -> Any:
        """Return what a function reads of a store's partition.

        Raises:
            NoSuchStoreError: there is no such store.
            StoreNotHereError: another process has the partition.
            StoreMovesError: the task does not run within `timeout` seconds.
        """
        self.definition(name)
        if not 0 <= partition < self.partitions(name):
            raise QueryError(
                f"store {name!r} has no partition {partition}; it has {self.partitions(name)}"
            )
        deadline = time.monotonic() + timeout
        while True:
            with self._tasks.lock:
                store = self._store(name, partition, stale)
                if store is not None:
                    return read(store)
            if time.monotonic() >= deadline:
                raise self._missing(name, partition, timeout)
            if self._is_elsewhere(name, partition):
                raise self._missing(name, partition, timeout)
            time.sleep(_PAUSE_SECONDS)

    def held(self, name: str) -> list[int]:
        """Return the partitions of a store whose tasks run here."""
        if self.is_global(name):
            return [0]
        number = self._subtopologies[name]
        return sorted(task[1] for task in list(self._tasks.running) if task[0] == number)

    def _store(self, name: str, partition: int, stale: bool) -> Store | None:
        if self.is_global(name):
            return self._global_stores[name]
        task_id: TaskId = self._subtopologies[name], partition
        task = self._tasks.running.get(task_id)
        if task is not None:
            return task.stores[name]
        if not stale:
            return None
        standby = self._tasks.standby.get(task_id)
        restoring = self._tasks.restoring.get(task_id)
        if standby is not None:
            return standby.stores[name]
        return None if restoring is None else restoring.task.stores[name]

    def _is_elsewhere(self, name: str, partition: int) -> bool:
        """Whether another process has said that it has the partition, and this one will not get it."""
        active, _ = self.hosts_of(name, partition)
        task_id = self._subtopologies[name], partition
        return active not in (None, self._own) and task_id not in self._tasks.active

    def _missing(self, name: str, partition: int, timeout: float) -> QueryError:
        task_id = self._subtopologies[name], partition
        what = f"partition {partition} of store {name!r}"
        if task_id in self._tasks.active:
            return StoreMovesError(
                f"{what} was still being restored after {timeout:g} s; try again, or read what is "
                "there with stale=True"
            )
        active, _ = self.hosts_of(name, partition)
        if active is not None and active == self._own:
            return StoreMovesError(
                f"the task of {what} does not run yet, or not any more; try again"
            )
        if active is not None:
            return StoreNotHereError(
                f"{active} has {what}: ask there (GET http://{active}/stores/{name}?key=...)",
                str(active),
            )
        return StoreNotHereError(
            f"no task of this process has {what}, and where it is is not known: it moves, or another "
            "process has it. Try again; with application_server, processes know one another"
        )


class StoreQuery:
    """The reads of one store, on the partitions that are in this process."""

    def __init__(self, queries: Queries, name: str, *, stale: bool, timeout: float) -> None:
        """Raise a NoSuchStoreError if there is no such store."""
        self._definition = queries.definition(name)
        self._queries = queries
        self._name = name
        self._stale = stale
        self._timeout = timeout

    def get(self, key: Any, *, partition: int | None = None) -> Any:
        """Return the value of a key; None if it has none. `partition` is for other partitioners.

        Raises:
            QueryError: see `Queries.read`; or the store has windows, which have `fetch`.
        """
        found = self.get_stamped(key, partition=partition)
        return None if found is None else found.value

    def get_stamped(self, key: Any, *, partition: int | None = None) -> Stamped | None:
        """Return the value of a key with its time."""
        found: Stamped | None = self._read(
            self._place(key, partition), lambda one: one_value(one, key)
        )
        return found

    def fetch(
        self,
        key: Any,
        first: int | None = None,
        last: int | None = None,
        *,
        partition: int | None = None,
    ) -> list[tuple[Windowed, Any]]:
        """Return a key's windows that begin between two times (ms, both included), with their values.

        Of sessions, those that overlap the times.

        Raises:
            QueryError: see `Queries.read`; or the store has no windows.
        """
        found: list[tuple[Windowed, Any]] = self._read(
            self._place(key, partition), lambda one: windows_of(one, key, first, last)
        )
        return found

    def range(self, first: Any = None, last: Any = None) -> list[tuple[Any, Any]]:
        """Return keys and values between two keys, both included, in the order of the keys' bytes.

        These are of the partitions that are here, one after the other.

        Raises:
            QueryError: see `Queries.read`; or the store has windows.
        """
        found: list[tuple[Any, Any]] = []
        for partition in self._queries.held(self._name):
            found += self._read(partition, lambda one: entries_of(one, first, last))
        return found

    def all(self) -> list[tuple[Any, Any]]:
        """Return all keys and values that are here. In a store of windows the keys are windows."""
        found: list[tuple[Any, Any]] = []
        for partition in self._queries.held(self._name):
            found += self._read(partition, everything)
        return found

    def metadata(self, key: Any, *, partition: int | None = None) -> KeyMetadata:
        """Return which process has a key."""
        return self._queries.metadata(self._name, key, partition)

    def __len__(self) -> int:
        """Return about how many keys are here."""
        return sum(
            self._read(partition, lambda one: len(everything(one)))
            for partition in self._queries.held(self._name)
        )

    def _place(self, key: Any, partition: int | None) -> int:
        if partition is not None:
            return partition
        return self._queries.partition_of(self._name, key)

    def _read(self, partition: int, read: Callable[[Any], Any]) -> Any:
        return self._queries.read(
            self._name, partition, read, stale=self._stale, timeout=self._timeout
        )


def one_value(store: Store, key: Any) -> Stamped | None:
    """Return the value of a key in a key-value store."""
    if isinstance(store, KeyValueStore | VersionedStore) and not isinstance(store, ListStore):
        return store.get(key)
    raise _wrong(store, "get", "fetch" if isinstance(store, WindowStore | SessionStore) else None)


def windows_of(
    store: Store, key: Any, first: int | None, last: int | None
) -> list[tuple[Windowed, Any]]:
    """Return windows or sessions of a key, with their values."""
    since = _TIME_MIN if first is None else first
    until = LONG_MAX if last is None else last
    size_ms = store.definition.window_size_ms
    if isinstance(store, WindowStore):
        return [
            (Windowed(key, start, min(start + size_ms, LONG_MAX)), found.value)
            for start, found in store.between(key, since, until)
        ]
    if isinstance(store, SessionStore):
        return store.find(key, since, until)
    raise _wrong(store, "fetch", "get")


def entries_of(store: Store, first: Any, last: Any) -> list[tuple[Any, Any]]:
    """Return keys and values of a key-value store in order."""
    if not isinstance(store, KeyValueStore) or isinstance(store, ListStore):
        raise _wrong(store, "range", "all" if isinstance(store, WindowStore) else None)
    key, value = store.definition.key, store.definition.value
    bounds = [None if each is None else _encoded(key, each) for each in (first, last)]
    return [(key.decode(data), value.decode(entry[0])) for data, entry in store.between(*bounds)]


def everything(store: Store) -> list[tuple[Any, Any]]:
    """Return all of a store; keys of windows are `Windowed`."""
    if isinstance(store, WindowStore):
        return [(window, found.value) for window, found in store.all_between(_TIME_MIN, LONG_MAX)]
    if isinstance(store, SessionStore):
        raise _wrong(store, "all", "fetch")
    return entries_of(store, None, None)


def _encoded(serde: Serde, key: Any) -> bytes:
    try:
        data = serde.encode(key)
    except EncodingError as error:
        raise QueryError(f"the key has another type: {error}") from error
    if data is None:
        raise QueryError("the key is None")
    return data


def _wrong(store: Store, asked: str, other: str | None) -> NoSuchStoreError:
    hint = f"; use {other}" if other else ""
    return NoSuchStoreError(
        f"store {store.name!r} is of the kind {store.definition.kind.value} and has no {asked}{hint}"
    )
