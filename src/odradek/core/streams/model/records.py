"""The values that flow between processors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]
"""Names and values. A tuple, because records with the same headers share it."""

UNKNOWN_TIME = -1
"""The time before the first record, and of records without time."""


class Record:
    """A key, a value, a time in milliseconds since 1970, and headers. It is never changed."""

    __slots__ = ("headers", "key", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int, headers: Headers = ()) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers

    def with_key(self, key: Any) -> Record:
        """Return this record with another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: Any) -> Record:
        """Return this record with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record:
        """Return this record with another time."""
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record:
        """Return this record with other headers."""
        return Record(self.key, self.value, self.timestamp, headers)

    def __repr__(self) -> str:
        return f"Record({self.key!r}, {self.value!r}, {self.timestamp}, {self.headers!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and (
            self.key == other.key
            and self.value == other.value
            and self.timestamp == other.timestamp
            and self.headers == other.headers
        )

    def __hash__(self) -> int:
        return hash((self.key, self.timestamp))


class Change:
    """An update of a table: the new value, and the old one if a later operator needs it."""

    __slots__ = ("is_latest", "new", "old")

    def __init__(self, new: Any, old: Any, is_latest: bool = True) -> None:
        self.new = new
        self.old = old
        self.is_latest = is_latest
        """False if the table has a newer version (only of versioned tables)."""

    def __repr__(self) -> str:
        return f"Change({self.new!r}, {self.old!r})"


@dataclass(frozen=True, slots=True, order=True)
class Windowed:
    """A key and its window. `end` is outside tumbling and hopping windows, inside the others."""

    key: Any
    start: int
    end: int


class Stamped(NamedTuple):
    """A value and its time (Kafka's ValueAndTimestamp)."""

    value: Any
    timestamp: int


class RecordContext(NamedTuple):
    """Where the record that is processed comes from. Punctuators have no topic."""

    topic: str | None
    partition: int
    offset: int
    timestamp: int
    headers: Headers

    def size(self) -> int:
        """Return the size by which Kafka Streams accounts it in caches and buffers."""
        total = 20 + (len(self.topic) if self.topic is not None else 0)
        for name, value in self.headers:
            total += len(name) + (len(value) if value is not None else 0)
        return total


class Produced(NamedTuple):
    """A record to send: to an output, repartition or changelog topic."""

    topic: str
    partition: int | None
    """None: the partition follows from the key, or is arbitrary."""
    key: bytes | None
    value: bytes | None
    timestamp: int | None
    """None: the time at which it is sent."""
    headers: Headers
    partition_key: bytes | None = None
    """For windowed keys: the key without the window, from which the partition follows."""
