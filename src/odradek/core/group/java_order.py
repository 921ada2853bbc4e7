"""The iteration order of Java's hash tables.

Some of Apache Kafka's decisions depend on this order (equal votes, which partition a member must
revoke, which member is the first). To make the same decisions, Odradek uses the same order. Keys
come by bucket; within a bucket they are in the order in which they were added, except that
`compute` and `computeIfAbsent` add at the head. A table that grows keeps the order within its
buckets. The order is exact if no bucket has eight or more keys; with more keys Java grows the table
earlier, or converts the bucket to a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Generic, TypeVar

from odradek.core.coordinator.placement import java_hash

KeyT = TypeVar("KeyT")

DEFAULT_CAPACITY = 16
TIMELINE_CAPACITY_MIN = 2
_FIBONACCI = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF
_UUID_WORDS = Struct(">IIII")


class JavaHashTable(Generic[KeyT]):
    """The keys of a `HashMap` or `HashSet` in iteration order."""

    __slots__ = ("_appended", "_capacity", "_hash_of", "_prepended")

    def __init__(
        self, hash_of: Callable[[KeyT], int], initial_capacity: int = DEFAULT_CAPACITY
    ) -> None:
        """`initial_capacity` is the argument of Java's constructor."""
        self._hash_of = hash_of
        self._capacity = _table_size(initial_capacity)
        self._prepended: dict[KeyT, None] = {}
        """Keys that were added at the head of their bucket; the last one is the first."""
        self._appended: dict[KeyT, None] = {}

    def __len__(self) -> int:
        return len(self._prepended) + len(self._appended)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._appended or key in self._prepended

    def __iter__(self) -> Iterator[KeyT]:
        keys = [*reversed(self._prepended), *self._appended]
        return iter(hash_order(keys, self._hash_of, self._capacity))

    def put(self, key: KeyT) -> None:
        """`HashMap.put` and `HashSet.add`."""
        if key not in self:
            self._appended[key] = None
            self._grow_if_full()

    def compute(self, key: KeyT, *, is_kept: bool = True) -> None:
        """`HashMap.compute` and `HashMap.computeIfAbsent`: the function returns a value or null.

        They grow the table before they search for the key.
        """
        self._grow_if_full()
        if not is_kept:
            self.remove(key)
        elif key not in self:
            self._prepended[key] = None

    def remove(self, key: KeyT) -> None:
        """`HashMap.remove`: the table does not shrink."""
        self._appended.pop(key, None)
        self._prepended.pop(key, None)

    def _grow_if_full(self) -> None:
        if len(self) > self._capacity * 3 // 4:
            self._capacity *= 2


def _table_size(initial_capacity: int) -> int:
    """The number of buckets of a table, a power of two."""
    return 1 << (initial_capacity - 1).bit_length() if initial_capacity > 1 else 1


def grown_capacity(count: int) -> int:
    """Number of buckets of a table with the default capacity that grew with its keys."""
    capacity = DEFAULT_CAPACITY
    while count > capacity * 3 // 4:
        capacity *= 2
    return capacity


def roomy_capacity(count: int) -> int:
    """The initial capacity `(int) (count / 0.75f) + 1`, which Java uses for `count` keys."""
    return count * 4 // 3 + 1


def copied_capacity(count: int) -> int:
    """Number of buckets of a `HashSet` that was created from a collection."""
    return _table_size(max(roomy_capacity(count), DEFAULT_CAPACITY))


def hash_order(keys: Iterable[KeyT], hash_of: Callable[[KeyT], int], capacity: int) -> list[KeyT]:
    """Sort distinct keys by bucket; keys of the same bucket keep their order."""
    return sorted(keys, key=lambda key: hash_bucket(hash_of(key), capacity))


def hash_bucket(value: int, capacity: int) -> int:
    """The bucket of a hash code."""
    value &= 0xFFFFFFFF
    return (value ^ (value >> 16)) & (capacity - 1)


def java_hash_order(keys: Iterable[str]) -> list[str]:
    """Strings in the order of a `HashMap` to which they were added one by one."""
    distinct = list(dict.fromkeys(keys))
    return hash_order(distinct, java_hash, grown_capacity(len(distinct)))


def java_set_order(keys: Iterable[str]) -> list[str]:
    """Strings in the order of a `HashSet` that was created from their sorted list."""
    distinct = sorted(set(keys))
    return hash_order(distinct, java_hash, copied_capacity(len(distinct)))


def timeline_order(keys: Iterable[str], capacity: int) -> list[str]:
    """Strings in the order of Kafka's `TimelineHashMap`, to which they were added one by one.

    The slot is the upper bits of a product (Fibonacci hashing); within a slot the last key is the
    first.
    """
    shift = 65 - capacity.bit_length()

    def slot(key: str) -> int:
        return (java_hash(key) * _FIBONACCI & _MASK) >> shift

    last_first = list(keys)
    last_first.reverse()
    return sorted(last_first, key=slot)


def timeline_capacity(capacity: int, size: int) -> int:
    """Number of slots of a `TimelineHashMap` with this many keys after a put, even of an
    existing key."""
    return capacity * 2 if (size + 1) * 3 > capacity * 4 else capacity


def uuid_hash(uuid: bytes) -> int:
    """Kafka's `Uuid.hashCode`."""
    a, b, c, d = _UUID_WORDS.unpack(uuid)
    return int(a ^ b ^ c ^ d)


def integer_hash(value: int) -> int:
    """Java's `Integer.hashCode`."""
    return value
