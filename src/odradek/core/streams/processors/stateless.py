"""Processors without state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import Record

Predicate = Callable[[Any, Any], Any]
Mapper = Callable[[Any, Any], Any]


class PassThrough(Node):
    """Forwards each record: merged streams, branches."""

    def process(self, record: Record) -> None:
        """Forward the record."""
        self.forward(record)


class Filter(Node):
    """Forwards the records for which the predicate has the wanted result."""

    def __init__(self, predicate: Predicate, keeps: bool = True) -> None:
        super().__init__()
        self._predicate = predicate
        self._keeps = keeps

    def process(self, record: Record) -> None:
        """Forward the record if the predicate allows it."""
        if bool(self._predicate(record.key, record.value)) is self._keeps:
            self.forward(record)


class Map(Node):
    """Replaces key and value."""

    def __init__(self, mapper: Mapper) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: Record) -> None:
        """Forward a record with the new key and value."""
        key, value = self._mapper(record.key, record.value)
        self.forward(Record(key, value, record.timestamp, record.headers))


class SelectKey(Node):
    """Replaces the key."""

    def __init__(self, mapper: Mapper) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: Record) -> None:
        """Forward the record with the new key."""
        self.forward(record.with_key(self._mapper(record.key, record.value)))


class MapValues(Node):
    """Replaces the value."""

    def __init__(self, mapper: Mapper) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: Record) -> None:
        """Forward the record with the new value."""
        self.forward(record.with_value(self._mapper(record.key, record.value)))


class FlatMap(Node):
    """Replaces a record by any number of records."""

    def __init__(self, mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: Record) -> None:
        """Forward the records."""
        for key, value in self._mapper(record.key, record.value):
            self.forward(Record(key, value, record.timestamp, record.headers))


class FlatMapValues(Node):
    """Replaces a value by any number of values."""

    def __init__(self, mapper: Callable[[Any, Any], Iterable[Any]]) -> None:
        super().__init__()
        self._mapper = mapper

    def process(self, record: Record) -> None:
        """Forward a record for each value."""
        for value in self._mapper(record.key, record.value):
            self.forward(record.with_value(value))


class Peek(Node):
    """Calls a function, and forwards the record unless nobody is behind."""

    def __init__(self, action: Mapper, forwards: bool) -> None:
        super().__init__()
        self._action = action
        self._forwards = forwards

    def process(self, record: Record) -> None:
        """Call the function."""
        self._action(record.key, record.value)
        if self._forwards:
            self.forward(record)


class Branch(Node):
    """Forwards each record to the first branch whose predicate accepts it."""

    def __init__(self, predicates: list[Predicate], has_default: Callable[[], bool]) -> None:
        super().__init__()
        self._predicates = predicates
        self._has_default = has_default

    def process(self, record: Record) -> None:
        """Forward the record to one branch, to the default branch, or drop it."""
        for number, predicate in enumerate(self._predicates):
            if predicate(record.key, record.value):
                self.forward_to(self.children[number], record)
                return
        if self._has_default():
            self.forward_to(self.children[len(self._predicates)], record)


class ToStream(Node):
    """Turns the changes of a table into a stream of its new values."""

    def process(self, record: Record) -> None:
        """Forward the new value."""
        self.forward(record.with_value(record.value.new))
