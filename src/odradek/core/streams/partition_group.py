"""Which record a task processes next: the one with the lowest time among the heads of its partitions.

A partition without records makes the task wait, because an older record may come: until the broker
says that there is none (`max_idle_ms` 0), and then for `max_idle_ms` more. -1 means not to wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from odradek.core.streams.model.errors import EncodingError, StreamsError
from odradek.core.streams.model.java_order import PriorityQueue, partition_order
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import UNKNOWN_TIME, Headers, Record, RecordContext
from odradek.core.streams.topology.definition import SourceDefinition

NEVER_WAIT = -1


class Consumed(NamedTuple):
    """A record of an input topic."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Head(NamedTuple):
    """A decoded record; `record` is None if it is skipped, and only its offset counts."""

    context: RecordContext
    record: Record | None
    raw: Consumed | None = None


DecodingHandler = Callable[[str, RecordContext, Consumed, Exception], bool]
"""Gets the source's name, the place, the record and the error. Returns whether to continue."""


class PartitionQueue:
    """The buffered records of one partition. The first one is decoded."""

    def __init__(
        self,
        topic: str,
        partition: int,
        source: SourceDefinition,
        node: Node,
        on_error: DecodingHandler,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.node = node
        self.time = UNKNOWN_TIME
        self.lag: int | None = None
        self.deadline: int | None = None
        self.skipped_to: int | None = None
        """The offset behind the last skipped record, if all before it is done. None: none was skipped."""
        self._source = source
        self._on_error = on_error
        self._records: deque[Consumed] = deque()
        self.head: Head | None = None

    def __len__(self) -> int:
        return len(self._records) + (self.head is not None)

    @property
    def head_time(self) -> int:
        """Return the time of the first record."""
        return UNKNOWN_TIME if self.head is None else self.head.context.timestamp

    def add(self, records: Iterable[Consumed]) -> None:
        """Add records."""
        self._records.extend(records)
        self._decode_next()

    def poll(self) -> Head:
        """Remove and return the first record."""
        head = self.head
        assert head is not None
        self.head = None
        self.time = max(self.time, head.context.timestamp)
        self._decode_next()
        return head

    def set_time(self, time: int) -> None:
        """Continue with the time of an earlier run."""
        self.time = time

    def set_lag(self, lag: int | None) -> None:
        """Set how many records the broker has that are not here. None: unknown."""
        self.lag = lag

    def set_deadline(self, deadline: int | None) -> None:
        """Set until when the task waits for records of this partition."""
        self.deadline = deadline

    def clear(self) -> None:
        """Forget all records."""
        self._records.clear()
        self.head = None

    def _decode_next(self) -> None:
        skipped: RecordContext | None = None
        while self.head is None and self._records:
            raw = self._records.popleft()
            context = RecordContext(
                self.topic, self.partition, raw.offset, raw.timestamp, raw.headers
            )
            record = self._decode(raw, context)
            if record is None or record.timestamp < 0:
                skipped = context._replace(timestamp=UNKNOWN_TIME)
                continue
            at = RecordContext(
                self.topic, self.partition, raw.offset, record.timestamp, raw.headers
            )
            self.head = Head(at, record, raw)
        if skipped is not None:
            self.skipped_to = skipped.offset + 1
            if self.head is None:
                self.head = Head(skipped, None)

    def _decode(self, raw: Consumed, context: RecordContext) -> Record | None:
        """Return the record, or None if it cannot be decoded and the program wants to continue."""
        source = self._source
        try:
            key: Any = source.key.decode(raw.key)
            value: Any = source.value.decode(raw.value)
        except EncodingError as error:
            if self._on_error(source.name, context, raw, error):
                return None
            raise StreamsError(
                f"{source.name} cannot decode {self.topic}-{self.partition} offset {raw.offset}: "
                f"{error}"
            ) from error
        timestamp = raw.timestamp
        if source.timestamp is not None:
            timestamp = source.timestamp(key, value, context, self.time)
        elif timestamp < 0:
            raise StreamsError(
                f"{self.topic}-{self.partition} offset {raw.offset} has the invalid (negative) "
                f"timestamp {timestamp}. Possibly because a pre-0.10 producer client was used to write"
                " this record, without embedding a timestamp; use timestamp= of the stream"
            )
        return Record(key, value, timestamp, raw.headers)


class PartitionGroup:
    """The input of a task."""

    def __init__(self, queues: list[PartitionQueue], max_idle_ms: int) -> None:
        by_place = {(each.topic, each.partition): each for each in queues}
        self._queues = {place: by_place[place] for place in partition_order(list(by_place))}
        self._by_time: PriorityQueue[PartitionQueue] = PriorityQueue(lambda each: each.head_time)
        self._max_idle_ms = max_idle_ms
        self.stream_time = UNKNOWN_TIME
        self.buffered = 0

    def queue(self, topic: str, partition: int) -> PartitionQueue:
        """Return the queue of a partition."""
        return self._queues[topic, partition]

    def partitions(self) -> list[tuple[str, int]]:
        """Return the partitions."""
        return list(self._queues)

    def add(self, topic: str, partition: int, records: Iterable[Consumed]) -> None:
        """Add records of a partition."""
        queue = self._queues[topic, partition]
        before = len(queue)
        queue.add(records)
        after = len(queue)
        if before == 0 and after > 0:
            self._by_time.offer(queue)
        self.buffered += after - before

    def next(self) -> tuple[PartitionQueue, Head] | None:
        """Remove and return the record to process."""
        queue = self._by_time.poll()
        if queue is None:
            return None
        before = len(queue)
        head = queue.poll()
        self.buffered += len(queue) - before
        if len(queue):
            self._by_time.offer(queue)
        self.stream_time = max(self.stream_time, head.context.timestamp)
        return queue, head

    def set_partition_time(self, topic: str, partition: int, time: int) -> None:
        """Continue with the time of an earlier run."""
        self.stream_time = max(self.stream_time, time)
        self._queues[topic, partition].set_time(time)

    def is_ready(self, now_ms: int) -> bool:
        """Return whether to process a record now, or to wait for other partitions."""
        if self._max_idle_ms == NEVER_WAIT:
            return self.buffered > 0
        has_records = False
        for queue in self._queues.values():
            if len(queue):
                queue.set_deadline(None)
                has_records = True
            elif queue.lag is None or queue.lag > 0:
                queue.set_deadline(None)
                return False
            else:
                if queue.deadline is None:
                    queue.set_deadline(now_ms + self._max_idle_ms)
                if queue.deadline is not None and now_ms < queue.deadline:
                    return False
        return has_records

    def clear(self) -> None:
        """Forget all records."""
        for queue in self._queues.values():
            queue.clear()
        self._by_time.clear()
        self.buffered = 0
        self.stream_time = UNKNOWN_TIME
