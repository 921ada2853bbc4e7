"""Records of connectors, with their headers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from odradek.core.connect.data import Schema, type_of
from odradek.core.connect.errors import DataError


class Header(NamedTuple):
    """A header. Keys need not be unique."""

    key: str
    schema: Schema | None
    value: Any


class Headers:
    """The headers of a record, in order."""

    __slots__ = ("_listed",)

    def __init__(self, headers: Iterable[Header] = ()) -> None:
        self._listed = list(headers)

    def add(self, key: str, value: Any, schema: Schema | None = None) -> None:
        """Add a header. Without a schema it has that of the value's class.

        Raises:
            DataError: the class has no type in Connect.
        """
        if schema is None and value is not None:
            kind = type_of(value)
            if kind is None:
                raise DataError(f"{type(value).__name__} has no type in Connect")
            schema = Schema(kind) if kind.is_primitive else None
        self._listed.append(Header(key, schema, value))

    def remove(self, key: str) -> None:
        """Remove all headers with a key."""
        self._listed = [each for each in self._listed if each.key != key]

    def with_key(self, key: str) -> list[Header]:
        """Return the headers with a key."""
        return [each for each in self._listed if each.key == key]

    def last(self, key: str) -> Header | None:
        """Return the last header with a key."""
        found = self.with_key(key)
        return found[-1] if found else None

    def copy(self) -> Headers:
        """Return a copy."""
        return Headers(self._listed)

    def __iter__(self) -> Iterator[Header]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._listed == other._listed

    def __hash__(self) -> int:
        return hash(tuple(each.key for each in self._listed))

    def __repr__(self) -> str:
        return f"Headers({self._listed})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRecord:
    """What records of sources and sinks have. `timestamp` is in ms since 1970."""

    topic: str
    partition: int | None = None
    key_schema: Schema | None = None
    key: Any = None
    value_schema: Schema | None = None
    value: Any = None
    timestamp: int | None = None
    headers: Headers = field(default_factory=Headers)

    def with_changes(self, **changes: Any) -> Self:
        """Return the record with other fields."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(ConnectRecord):
    """A record that a source task has read.

    `source_partition` says where it comes from, and `source_offset` where reading continues after it.
    Both have values of JSON only.
    """

    source_partition: Mapping[str, Any] | None = None
    source_offset: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord(ConnectRecord):
    """A record for a sink task. The original names are those before transforms."""

    offset: int = 0
    timestamp_type: str = "CreateTime"
    original_topic: str = ""
    original_partition: int = 0
    original_offset: int = 0
