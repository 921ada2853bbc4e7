"""Grouped streams and tables, and their aggregations.

The classes get the class of tables as an argument, because tables can be grouped again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from odradek.core.streams.model.serdes import LONG
from odradek.core.streams.model.windows import Hopping, Session, Sliding, Unlimited
from odradek.core.streams.processors.aggregates import (
    count_down,
    count_up,
    nothing,
    reducing,
    zero,
)
from odradek.streams import functions as fn
from odradek.streams.plan import aggregates, tables
from odradek.streams.plan.aggregates import Aggregation, Grouping
from odradek.streams.plan.handles import GroupedHandle, TableHandle
from odradek.streams.plan.materialized import Store, options

Function = Callable[..., Any]
T = TypeVar("T")


class GroupedStream(Generic[T]):
    """A stream that is grouped by its key."""

    def __init__(self, handle: GroupedHandle, table: Callable[[TableHandle], T]) -> None:
        self._grouping = Grouping(handle)
        self._table = table

    def count(self, *, store: str | Store | None = None, name: str | None = None) -> T:
        """Count the records of each key."""
        return self._windowed(None).count(store=store, name=name)

    def reduce(
        self, reducer: Function, *, store: str | Store | None = None, name: str | None = None
    ) -> T:
        """Combine the values of each key: `reducer(aggregate, value)`."""
        return self._windowed(None).reduce(reducer, store=store, name=name)

    def aggregate(
        self,
        initializer: Function,
        aggregator: Function,
        *,
        value: Any = None,
        store: str | Store | None = None,
        name: str | None = None,
    ) -> T:
        """Aggregate the values of each key: `aggregator(key, value, aggregate)`, or without the key.

        The type of aggregates is that of the first one, unless `value` says it.
        """
        return self._windowed(None).aggregate(
            initializer, aggregator, value=value, store=store, name=name
        )

    def windowed_by(self, window: Hopping | Unlimited | Sliding | Session) -> WindowedStream[T]:
        """Aggregate by window."""
        return self._windowed(window)

    def cogroup(self, aggregator: Function) -> Cogrouped[T]:
        """Aggregate this and other streams into one table."""
        return Cogrouped([(self._grouping, fn.aggregator_of(aggregator))], None, self._table)

    def _windowed(
        self, window: Hopping | Unlimited | Sliding | Session | None
    ) -> WindowedStream[T]:
        return WindowedStream(self._grouping, window, False, self._table)


class WindowedStream(Generic[T]):
    """A grouped stream that is aggregated by window (or, inside of this package, as a whole)."""

    def __init__(
        self,
        grouping: Grouping,
        window: Hopping | Unlimited | Sliding | Session | None,
        emits_final: bool,
        table: Callable[[TableHandle], T],
    ) -> None:
        self._grouping = grouping
        self._table = table
        self._window = window
        self._emits_final = emits_final

    def emit(self, when: str) -> WindowedStream[T]:
        """Emit results at each "update", or once when the "window closes"."""
        if when not in ("update", "window closes"):
            raise ValueError(f'results are emitted at each "update" or "window closes": {when!r}')
        return WindowedStream(self._grouping, self._window, when == "window closes", self._table)

    def count(self, *, store: str | Store | None = None, name: str | None = None) -> T:
        """Count the records."""
        what = Aggregation(
            initializer=zero,
            aggregator=count_up,
            value=LONG,
            merger=lambda _key, one, two: one + two,
            window=self._window,
            emits_final=self._emits_final,
        )
        chosen = options(store)
        if (
            isinstance(store, Store)
            and store.name is None
            and not isinstance(self._window, Sliding)
        ):
            self._grouping.handle.stream.plan.graph.number()
        return self._table(self._grouping.aggregate(what, "KSTREAM-AGGREGATE-", chosen, name))

    def reduce(
        self, reducer: Function, *, store: str | Store | None = None, name: str | None = None
    ) -> T:
        """Combine the values: `reducer(aggregate, value)`."""
        grouping = self._grouping
        aggregator = reducing(reducer)
        what = Aggregation(
            initializer=nothing,
            aggregator=aggregator,
            value=grouping.handle.stream.value,
            merger=lambda key, one, two: aggregator(key, two, one),
            window=self._window,
            emits_final=self._emits_final,
        )
        return self._table(grouping.aggregate(what, "KSTREAM-REDUCE-", options(store), name))

    def aggregate(
        self,
        initializer: Function,
        aggregator: Function,
        merger: Function | None = None,
        *,
        value: Any = None,
        store: str | Store | None = None,
        name: str | None = None,
    ) -> T:
        """Aggregate the values: `aggregator(key, value, aggregate)`, or without the key.

        Sessions need `merger(key, one, two)`, or without the key, which adds two aggregates.
        """
        what = self._aggregation(initializer, aggregator, merger, value)
        grouping = self._grouping
        return self._table(grouping.aggregate(what, "KSTREAM-AGGREGATE-", options(store), name))

    def _aggregation(
        self, initializer: Function, aggregator: Function, merger: Function | None, value: Any
    ) -> Aggregation:
        return Aggregation(
            initializer=initializer,
            aggregator=fn.aggregator_of(aggregator),
            value=fn.initial_type(initializer(), value),
            merger=None if merger is None else fn.joiner_of(merger),
            window=self._window,
            emits_final=self._emits_final,
        )


class Cogrouped(Generic[T]):
    """Several grouped streams that are aggregated into one table."""

    def __init__(
        self,
        parts: list[tuple[Grouping, Function]],
        window: Hopping | Unlimited | Sliding | Session | None,
        table: Callable[[TableHandle], T],
    ) -> None:
        self._parts = parts
        self._window = window
        self._table = table

    def cogroup(self, stream: GroupedStream[T], aggregator: Function) -> Cogrouped[T]:
        """Add a stream."""
        added = (stream._grouping, fn.aggregator_of(aggregator))
        return Cogrouped([*self._parts, added], self._window, self._table)

    def windowed_by(self, window: Hopping | Unlimited | Sliding | Session) -> Cogrouped[T]:
        """Aggregate by window."""
        return Cogrouped(self._parts, window, self._table)

    def aggregate(
        self,
        initializer: Function,
        merger: Function | None = None,
        *,
        value: Any = None,
        store: str | Store | None = None,
        name: str | None = None,
    ) -> T:
        """Aggregate all streams, each with its own aggregator."""
        what = Aggregation(
            initializer=initializer,
            aggregator=self._parts[0][1],
            value=fn.initial_type(initializer(), value),
            merger=None if merger is None else fn.joiner_of(merger),
            window=self._window,
        )
        return self._table(aggregates.cogroup(self._parts, what, options(store), name))


class GroupedTable(Generic[T]):
    """A grouped table. Aggregations subtract the old value of a row, and add the new one."""

    def __init__(self, grouping: tables.TableGrouping, table: Callable[[TableHandle], T]) -> None:
        self._grouping = grouping
        self._table = table

    def count(self, *, store: str | Store | None = None, name: str | None = None) -> T:
        """Count the rows of each key."""
        return self._aggregate(zero, count_up, count_down, LONG, "KTABLE-AGGREGATE-", store, name)

    def reduce(
        self,
        adder: Function,
        subtractor: Function,
        *,
        store: str | Store | None = None,
        name: str | None = None,
    ) -> T:
        """Combine the values of each key: both functions get the aggregate and a value."""
        return self._aggregate(
            None,
            lambda _key, value, total: adder(total, value),
            lambda _key, value, total: subtractor(total, value),
            self._grouping.value,
            "KTABLE-REDUCE-",
            store,
            name,
        )

    def aggregate(
        self,
        initializer: Function,
        adder: Function,
        subtractor: Function,
        *,
        value: Any = None,
        store: str | Store | None = None,
        name: str | None = None,
    ) -> T:
        """Aggregate the values of each key: both functions get key, value and aggregate."""
        return self._aggregate(
            initializer,
            fn.aggregator_of(adder),
            fn.aggregator_of(subtractor),
            fn.initial_type(initializer(), value),
            "KTABLE-AGGREGATE-",
            store,
            name,
        )

    def _aggregate(
        self,
        initializer: Function | None,
        adder: Function,
        subtractor: Function,
        value: Any,
        prefix: str,
        store: str | Store | None,
        name: str | None,
    ) -> T:
        handle = self._grouping.aggregate(
            initializer, adder, subtractor, value, prefix, options(store), name
        )
        return self._table(handle)
