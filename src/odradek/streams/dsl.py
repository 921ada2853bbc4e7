"""Streams and tables: the operators of Kafka Streams' DSL with snake case names.

Functions get `(key, value)`, or only the value if they have one parameter; where that is different,
the method says so. `key` and `value` are types: `str`, `int`, `bytes`, a dataclass and so on
(`odradek.core.streams.model.serdes`). A method that changes key or value takes the type from the function's
annotation, from the fields of a column expression, or from the argument; else the type stays.
`name` names the operator, and `store` the store: a text or a `Store`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from odradek.core.streams.model.durations import Duration, milliseconds
from odradek.core.streams.model.errors import TopologyError
from odradek.core.streams.model.serdes import serde_of
from odradek.core.streams.model.windows import JoinWindow
from odradek.core.streams.processors.custom import CustomDefinition, FunctionProcessor, Processor
from odradek.core.streams.processors.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Peek,
    SelectKey,
)
from odradek.core.streams.topology.definition import Partitioner
from odradek.streams import functions as fn
from odradek.streams.grouped import GroupedStream, GroupedTable
from odradek.streams.plan import foreign_keys, joins, streams, tables
from odradek.streams.plan.handles import GlobalHandle, GroupedHandle, StreamHandle, TableHandle
from odradek.streams.plan.materialized import Store, options

Function = Callable[..., Any]


class Stream:
    """A stream of records (Kafka's KStream)."""

    def __init__(self, handle: StreamHandle) -> None:
        self._handle = handle

    def filter(self, predicate: Function, name: str | None = None) -> Stream:
        """Keep the records for which the predicate is true."""
        call = fn.of_value(predicate)
        return self._apply("KSTREAM-FILTER-", name, lambda: Filter(call))

    def filter_not(self, predicate: Function, name: str | None = None) -> Stream:
        """Drop the records for which the predicate is true."""
        call = fn.of_value(predicate)
        return self._apply("KSTREAM-FILTER-", name, lambda: Filter(call, keeps=False))

    def map(
        self, mapper: Function, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> Stream:
        """Replace key and value: the function returns both."""
        call = fn.of_value(mapper)
        old = self._handle
        new_key, new_value = fn.pair_types(mapper, key, value, old.key, old.value, False)
        return self._apply(
            "KSTREAM-MAP-", name, lambda: Map(call), key=new_key, value=new_value, changes_key=True
        )

    def map_values(self, mapper: Function, *, value: Any = None, name: str | None = None) -> Stream:
        """Replace the value."""
        call = fn.of_value(mapper)
        old = self._handle
        kind = fn.result_type(mapper, value, old.value, old.key, old.value)
        return self._apply(
            "KSTREAM-MAPVALUES-", name, lambda: MapValues(call), value=kind, changes_value=True
        )

    def flat_map(
        self, mapper: Function, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> Stream:
        """Replace a record by any number of records: the function returns keys with values."""
        call = fn.of_value(mapper)
        old = self._handle
        new_key, new_value = fn.pair_types(mapper, key, value, old.key, old.value, True)
        return self._apply(
            "KSTREAM-FLATMAP-",
            name,
            lambda: FlatMap(call),
            key=new_key,
            value=new_value,
            changes_key=True,
        )

    def flat_map_values(
        self, mapper: Function, *, value: Any = None, name: str | None = None
    ) -> Stream:
        """Replace a value by any number of values."""
        call = fn.of_value(mapper)
        kind = fn.element_type(mapper, value, self._handle.value)
        return self._apply(
            "KSTREAM-FLATMAPVALUES-",
            name,
            lambda: FlatMapValues(call),
            value=kind,
            changes_value=True,
        )

    def select_key(self, mapper: Function, *, key: Any = None, name: str | None = None) -> Stream:
        """Replace the key."""
        call = fn.of_value(mapper)
        old = self._handle
        kind = fn.result_type(mapper, key, old.key, old.key, old.value)
        return self._apply(
            "KSTREAM-KEY-SELECT-", name, lambda: SelectKey(call), key=kind, changes_key=True
        )

    def peek(self, action: Function, name: str | None = None) -> Stream:
        """Call a function with each record."""
        call = fn.of_value(action)
        return self._apply("KSTREAM-PEEK-", name, lambda: Peek(call, forwards=True))

    def for_each(self, action: Function, name: str | None = None) -> None:
        """Call a function with each record; nothing comes behind it."""
        call = fn.of_value(action)
        self._apply("KSTREAM-FOREACH-", name, lambda: Peek(call, forwards=False))

    def merge(self, other: Stream, name: str | None = None) -> Stream:
        """Merge two streams. Their order is arbitrary."""
        return Stream(streams.merge(self._handle, other._handle, name))

    def split(self, name: str | None = None) -> Branches:
        """Split the stream into branches."""
        return Branches(streams.Splitter(self._handle, name))

    def repartition(
        self,
        *,
        key: Any = None,
        value: Any = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> Stream:
        """Send the stream through a topic, by its key."""
        old = self._handle
        new_key = old.key if key is None else serde_of(key)
        new_value = old.value if value is None else serde_of(value)
        return Stream(streams.repartition(old, name, new_key, new_value, partitioner, partitions))

    def to(
        self,
        topic: str | Function,
        *,
        key: Any = None,
        value: Any = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Write to a topic. A function `(key, value, context)` chooses one for each record."""
        old = self._handle
        is_name = isinstance(topic, str)
        streams.sink(
            old,
            topic if isinstance(topic, str) else None,
            None if isinstance(topic, str) else topic,
            old.key if key is None else serde_of(key),
            old.value if value is None else serde_of(value),
            partitioner,
            name,
        )
        assert is_name or callable(topic)

    def to_table(
        self,
        *,
        store: str | Store | None = None,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> Table:
        """Read the stream as a table: each record replaces the row of its key."""
        old = self._handle
        new_key = old.key if key is None else serde_of(key)
        new_value = old.value if value is None else serde_of(value)
        return Table(streams.to_table(old, name, options(store), new_key, new_value))

    def group_by(
        self,
        mapper: Function,
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> GroupedStream[Table]:
        """Group by another key. The stream goes through a topic."""
        old = self._handle
        kind = fn.result_type(mapper, key, old.key, old.key, old.value)
        grouped = streams.group_by(old, fn.of_value(mapper), kind, name)
        return GroupedStream(_typed(grouped, None, value), Table)

    def group_by_key(
        self, *, key: Any = None, value: Any = None, name: str | None = None
    ) -> GroupedStream[Table]:
        """Group by the key. If an operator has changed it, the stream goes through a topic."""
        grouped = GroupedHandle(stream=self._handle, topic=name)
        return GroupedStream(_typed(grouped, key, value), Table)

    def join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: Function,
        *window: JoinWindow,
        **options: Any,
    ) -> Stream:
        """Join with a stream (within a window), a table or a global table.

        `joiner(left, right)`, or with the key before them, returns the new value. Options: `value` is
        its type. With a stream, `store` begins the names of the stores. With a versioned table, `grace`
        is how long records wait for it. With a global table, `on` returns the table's key.
        """
        return self._join(other, joiner, window, "inner", **options)

    def left_join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: Function,
        *window: JoinWindow,
        **options: Any,
    ) -> Stream:
        """Join, and keep the records without partner: the joiner gets None."""
        return self._join(other, joiner, window, "left", **options)

    def outer_join(
        self, other: Stream, joiner: Function, window: JoinWindow, **options: Any
    ) -> Stream:
        """Join with a stream, and keep the records of both without partner."""
        return self._join(other, joiner, (window,), "outer", **options)

    def process(
        self,
        processor: type[Processor] | Function,
        *,
        stores: Sequence[str] = (),
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Process records with a class of the program, or a function `(record, context)`.

        `stores` are the names of stores that it uses.
        """
        old = self._handle
        kinds = (
            old.key if key is None else serde_of(key),
            old.value if value is None else serde_of(value),
        )
        definition = CustomDefinition(_supplier(processor), keeps_key=False)
        return Stream(streams.process(old, definition, stores, *kinds, name, changes_key=True))

    def process_values(
        self,
        processor: type[Processor] | Function,
        *,
        stores: Sequence[str] = (),
        value: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Process records as `process` does, but keep the key."""
        old = self._handle
        kind = old.value if value is None else serde_of(value)
        definition = CustomDefinition(_supplier(processor), keeps_key=True)
        return Stream(
            streams.process(old, definition, stores, old.key, kind, name, changes_key=False)
        )

    def _join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: Function,
        window: tuple[JoinWindow, ...],
        how: str,
        *,
        value: Any = None,
        store: str | None = None,
        grace: Duration | None = None,
        on: Function | None = None,
        name: str | None = None,
    ) -> Stream:
        old = self._handle
        kind = fn.result_type(joiner, value, old.value, old.key, old.value)
        call = fn.joiner_of(joiner)
        keeps = how != "inner"
        if isinstance(other, Stream):
            if len(window) != 1:
                raise TopologyError("a join of streams needs one JoinWindow")
            joined = joins.join_streams(
                old,
                other._handle,
                call,
                window[0],
                keeps_left=keeps,
                keeps_right=how == "outer",
                value=kind,
                store=store,
                name=name,
            )
        elif isinstance(other, Table):
            grace_ms = None if grace is None else milliseconds(grace)
            joined = joins.join_table(
                old,
                other._handle,
                call,
                keeps_stream=keeps,
                value=kind,
                grace_ms=grace_ms,
                name=name,
            )
        else:
            if on is None:
                raise TopologyError("a join with a global table needs `on`, which returns its key")
            joined = joins.join_global(
                old, other._handle, fn.of_value(on), call, keeps_stream=keeps, value=kind, name=name
            )
        return Stream(joined)

    def _apply(self, prefix: str, name: str | None, make: Function, **changes: Any) -> Stream:
        return Stream(streams.operator(self._handle, prefix, name, make, **changes))


def _typed(grouped: GroupedHandle, key: Any, value: Any) -> GroupedHandle:
    """Return a grouped stream with other types."""
    stream = grouped.stream
    changed = StreamHandle(
        plan=stream.plan,
        name=stream.name,
        key=stream.key if key is None else serde_of(key),
        value=stream.value if value is None else serde_of(value),
        sources=stream.sources,
        is_rekeyed=stream.is_rekeyed,
        node=stream.node,
    )
    return GroupedHandle(stream=changed, topic=grouped.topic)


def _supplier(processor: type[Processor] | Function) -> Callable[[], Processor]:
    """Return a function that makes a processor for a task."""
    if isinstance(processor, type) or fn.parameter_count(processor, 0, 2) == 0:
        return processor
    return lambda: FunctionProcessor(processor)


class Branches:
    """The branches of a stream. Each record goes to the first whose predicate is true."""

    def __init__(self, splitter: streams.Splitter) -> None:
        self._splitter = splitter

    def branch(self, predicate: Function, name: str | None = None) -> Stream:
        """Add a branch."""
        return Stream(self._splitter.branch(fn.of_value(predicate), name))

    def default(self, name: str | None = None) -> Stream:
        """Add the branch of the records that no predicate accepts; call it last."""
        return Stream(self._splitter.default(name))


class Table:
    """A table: the last value of each key (Kafka's KTable)."""

    def __init__(self, handle: TableHandle) -> None:
        self._handle = handle

    def filter(
        self, predicate: Function, *, store: str | Store | None = None, name: str | None = None
    ) -> Table:
        """Keep the rows for which the predicate is true."""
        call = fn.of_value(predicate)
        return Table(tables.table_filter(self._handle, call, True, _maybe(store), name))

    def filter_not(
        self, predicate: Function, *, store: str | Store | None = None, name: str | None = None
    ) -> Table:
        """Drop the rows for which the predicate is true."""
        call = fn.of_value(predicate)
        return Table(tables.table_filter(self._handle, call, False, _maybe(store), name))

    def map_values(
        self,
        mapper: Function,
        *,
        value: Any = None,
        store: str | Store | None = None,
        name: str | None = None,
    ) -> Table:
        """Replace the values."""
        old = self._handle
        kind = fn.result_type(mapper, value, old.value, old.key, old.value)
        call = fn.of_value(mapper)
        return Table(tables.table_map_values(old, call, kind, _maybe(store), name))

    def to_stream(
        self, mapper: Function | None = None, *, key: Any = None, name: str | None = None
    ) -> Stream:
        """Return the changes as a stream. A function of the key (or of key and value) changes it.

        A windowed key becomes a `str` that way, unless `key` or an annotation says otherwise.
        """
        stream = Stream(tables.to_stream(self._handle, name))
        if mapper is None:
            return stream
        if key is None and fn.annotation_of(mapper) is None:
            key = self._handle.plan.key
        return stream.select_key(fn.of_key(mapper), key=key)

    def suppress(
        self,
        until: str | Duration,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        when_full: str = "emit",
        logged: bool = True,
        name: str | None = None,
    ) -> Table:
        """Hold updates back until the "window closes", or for a duration of stream time.

        `when_full` is "emit" (the oldest early) or "stop".
        """
        if when_full not in ("emit", "stop"):
            raise ValueError(f'a full buffer can "emit" or "stop": {when_full!r}')
        is_final = until == "window closes"
        if is_final and when_full == "emit" and (max_records or max_bytes):
            raise TopologyError('final results cannot leave early: when_full must be "stop"')
        wait_ms = None if is_final else milliseconds(until)
        return Table(
            tables.suppress(
                self._handle,
                wait_ms,
                max_records=max_records,
                max_bytes=max_bytes,
                stops_when_full=when_full == "stop",
                name=name,
                is_logged=logged,
            )
        )

    def group_by(
        self,
        mapper: Function,
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> GroupedTable[Table]:
        """Group by another key: the function returns the new key and value of a row."""
        old = self._handle
        kinds = fn.pair_types(mapper, key, value, old.key, old.value, False)
        return GroupedTable(tables.TableGrouping(old, fn.of_value(mapper), *kinds, name), Table)

    def join(self, other: Table, joiner: Function, **options: Any) -> Table:
        """Join with a table: by the key, or, with `on`, by a foreign key that it returns from a row.

        `joiner(left, right)`, or with the key before them, returns the new value. Options: `value` is
        its type, `store` the store of the joined table.
        """
        return self._join(other, joiner, "inner", **options)

    def left_join(self, other: Table, joiner: Function, **options: Any) -> Table:
        """Join, and keep the rows of this table without partner."""
        return self._join(other, joiner, "left", **options)

    def outer_join(self, other: Table, joiner: Function, **options: Any) -> Table:
        """Join by the key, and keep the rows of both tables without partner."""
        return self._join(other, joiner, "outer", **options)

    def _join(
        self,
        other: Table,
        joiner: Function,
        how: str,
        *,
        on: Function | None = None,
        value: Any = None,
        store: str | Store | None = None,
        name: str | None = None,
    ) -> Table:
        old = self._handle
        kind = fn.result_type(joiner, value, old.value, old.key, old.value)
        call = fn.joiner_of(joiner)
        keeps = how != "inner"
        if on is None:
            joined = joins.join_tables(
                old,
                other._handle,
                call,
                keeps_left=keeps,
                keeps_right=how == "outer",
                value=kind,
                store=_maybe(store),
                name=name,
            )
        else:
            joined = foreign_keys.join_foreign(
                old,
                other._handle,
                fn.of_value(on),
                call,
                keeps_left=keeps,
                value=kind,
                store=options(store),
                name=name,
            )
        return Table(joined)


def _maybe(store: str | Store | None) -> Store | None:
    return None if store is None else options(store)


class GlobalTable:
    """A table that each process holds whole."""

    def __init__(self, handle: GlobalHandle) -> None:
        self._handle = handle
