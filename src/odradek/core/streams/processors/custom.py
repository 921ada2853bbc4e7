"""Processors of the program (Kafka Streams' Processor API)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from odradek.core.streams.model.durations import Duration, milliseconds
from odradek.core.streams.model.errors import StreamsError
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import Record, RecordContext, Stamped
from odradek.core.streams.processors.base import Definition
from odradek.core.streams.stores.base import Store
from odradek.core.streams.stores.definition import Kind
from odradek.core.streams.stores.key_value import KeyValueStore


class Processor:
    """A processor of the program. Each task has its own object.

    `init` gets the context once; `process` gets each record, and may forward any number of records.
    """

    def init(self, context: ProcessorContext) -> None:
        """Keep the context, find stores, schedule functions."""
        self.context = context

    def process(self, record: Record) -> None:
        """Process a record."""
        raise NotImplementedError

    def close(self) -> None:
        """Free what the processor holds."""


class StateStore:
    """A key-value store, as processors see it. A table's store has values with their times."""

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store
        self._key = store.definition.key
        self._value = store.definition.value
        self._is_table = store.definition.kind is Kind.TIMESTAMPED

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None; of a table, the value with its time."""
        found = self._store.get(key)
        return found if found is None or self._is_table else found.value

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key; None deletes it. A table's value is a `Stamped`."""
        if isinstance(value, Stamped):
            self._store.put(key, value.value, value.timestamp)
        else:
            self._store.put(key, value, self._store.context.record.timestamp)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set the value of a key that has none. Return the value that it had."""
        found = self.get(key)
        if found is None:
            self.put(key, value)
        return found

    def delete(self, key: Any) -> Any:
        """Delete a key. Return the value that it had."""
        found = self.get(key)
        self._store.put(key, None, self._store.context.record.timestamp)
        return found

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values from `first` to `last`, both included, in the order of the bytes."""
        start = None if first is None else self._key.encode(first)
        end = None if last is None else self._key.encode(last)
        for key, (value, timestamp) in list(self._store.between(start, end)):
            decoded = self._value.decode(value)
            yield self._key.decode(key), Stamped(decoded, timestamp) if self._is_table else decoded

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Yield all keys and values in the order of the keys' bytes."""
        return self.range()


class ProcessorContext:
    """What a processor can do besides: forward records, find stores, schedule functions."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def task_id(self) -> str:
        """Return the subtopology and the partition, like "0_3"."""
        return self._node.context.task_id

    @property
    def now(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""
        return self._node.context.now_ms

    @property
    def record(self) -> RecordContext:
        """Return where the current record comes from: topic, partition, offset."""
        return self._node.context.record

    def forward(self, record: Record, child: str | None = None) -> None:
        """Pass a record to all operators behind this one, or to the one with the given name.

        Raises:
            StreamsError: there is no such operator.
        """
        if child is None:
            self._node.forward(record)
            return
        for each in self._node.children:
            if each.name == child:
                self._node.forward_to(each, record)
                return
        raise StreamsError(f"no operator {child!r} is behind {self._node.name}")

    def store(self, name: str) -> Any:
        """Return a store that the processor declared."""
        store: Store = self._node.context.store(name)
        return StateStore(store) if isinstance(store, KeyValueStore) else store

    def schedule(
        self, interval: Duration, call: Callable[[int], None], by: str = "stream time"
    ) -> Callable[[], None]:
        """Call `call(time)` in intervals, by "stream time" or by the "clock".

        Returns a function that ends the calls.
        """
        if by not in ("stream time", "clock"):
            raise ValueError(f'functions are called by "stream time" or by the "clock": {by!r}')
        interval_ms = milliseconds(interval)
        if interval_ms < 1:
            raise ValueError("the minimum supported scheduling interval is 1 millisecond")
        scheduler = self._node.context.scheduler
        assert scheduler is not None
        return scheduler.schedule(interval_ms, by == "stream time", call)

    def commit(self) -> None:
        """Ask for a commit soon."""
        self._node.context.request_commit()


class FunctionProcessor(Processor):
    """Calls a function `(record, context)` of the program with each record."""

    def __init__(self, function: Callable[[Record, ProcessorContext], None]) -> None:
        self._function = function

    def process(self, record: Record) -> None:
        """Call the function."""
        self._function(record, self.context)


class CustomDefinition(Definition):
    """A processor of the program."""

    def __init__(self, supplier: Callable[[], Processor], keeps_key: bool) -> None:
        self._supplier = supplier
        self._keeps_key = keeps_key

    def make(self) -> Node:
        """Return the node for one task."""
        return CustomNode(self._supplier(), self._keeps_key)


class CustomNode(Node):
    """Passes records to a processor of the program."""

    def __init__(self, processor: Processor, keeps_key: bool) -> None:
        super().__init__()
        self._processor = processor
        self._keeps_key = keeps_key
        self._key: Any = None

    def init(self) -> None:
        """Initialize the processor."""
        self._processor.init(ProcessorContext(self))

    def process(self, record: Record) -> None:
        """Process the record."""
        self._key = record.key
        self._processor.process(record)

    def forward(self, record: Record) -> None:
        """Pass a record on. A processor of values must not change the key."""
        if self._keeps_key and record.key != self._key:
            raise StreamsError(f"{self.name}: process_values cannot change the key; use process")
        super().forward(record)

    def close(self) -> None:
        """Close the processor."""
        self._processor.close()
