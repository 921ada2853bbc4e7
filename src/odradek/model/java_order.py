"""The iteration order of Java's hash tables.

Some of Apache Kafka's decisions depend on this order: which protocol wins if the number of votes is
equal, which partition a member must revoke, and which member is the first. Odradek uses the same
order to make the same decisions.

Keys are ordered by bucket. Within a bucket, keys are in the order in which they were added, but
`compute` and `computeIfAbsent` add a key at the head. When a table grows, keys in the same bucket
keep their order. The order here is the same as in Java if each bucket has fewer than eight keys.
With more keys, Java grows the table earlier or converts the bucket to a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Generic, TypeVar

from odradek.model.java_hash import java_hash

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
        """Keys that were added at the head of their bucket. The last added key comes first."""
        self._appended: dict[KeyT, None] = {}

    def __len__(self) -> int:
        return len(self._prepended) + len(self._appended)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._appended or key in self._prepended

    def __iter__(self) -> Iterator[KeyT]:
        keys = [*reversed(self._prepended), *self._appended]
        return iter(hash_order(keys, self._hash_of, self._capacity))

    def put(self, key: KeyT) -> None:
        """Do the same as `HashMap.put` and `HashSet.add`."""
        if key not in self:
            self._appended[key] = None
            self._grow_if_full()

    def compute(self, key: KeyT, *, is_kept: bool = True) -> None:
        """Do the same as `HashMap.compute` and `HashMap.computeIfAbsent`.

        `is_kept` is False if the function that Java calls returns null. These methods grow the
        table before they search for the key.
        """
        self._grow_if_full()
        if not is_kept:
            self.remove(key)
        elif key not in self:
            self._prepended[key] = None

    def remove(self, key: KeyT) -> None:
        """Do the same as `HashMap.remove`. The table does not shrink."""
        self._appended.pop(key, None)
        self._prepended.pop(key, None)

    def _grow_if_full(self) -> None:
        if len(self) > self._capacity * 3 // 4:
            self._capacity *= 2


def _table_size(initial_capacity: int) -> int:
    """Return the number of buckets of a new table, which is a power of two."""
    return 1 << (initial_capacity - 1).bit_length() if initial_capacity > 1 else 1


def grown_capacity(count: int) -> int:
    """Return the number of buckets after `count` keys were added to a default table."""
    capacity = DEFAULT_CAPACITY
    while count > capacity * 3 // 4:
        capacity *= 2
    return capacity


def roomy_capacity(count: int) -> int:
    """Return the initial capacity `(int) (count / 0.75f) + 1`, which Java uses for `count` keys."""
    return count * 4 // 3 + 1


def copied_capacity(count: int) -> int:
    """Return the number of buckets of a `HashSet` that was created from a collection."""
    return _table_size(max(roomy_capacity(count), DEFAULT_CAPACITY))


def hash_order(keys: Iterable[KeyT], hash_of: Callable[[KeyT], int], capacity: int) -> list[KeyT]:
    """Sort distinct keys by bucket. Keys of the same bucket keep their order."""
    return sorted(keys, key=lambda key: hash_bucket(hash_of(key), capacity))


def hash_bucket(value: int, capacity: int) -> int:
    """Return the number of the bucket of a hash code."""
    value &= 0xFFFFFFFF
    return (value ^ (value >> 16)) & (capacity - 1)


def java_hash_order(keys: Iterable[str]) -> list[str]:
    """Return strings in the order of a `HashMap` to which they were added one by one."""
    distinct = list(dict.fromkeys(keys))
    return hash_order(distinct, java_hash, grown_capacity(len(distinct)))


def java_set_order(keys: Iterable[str]) -> list[str]:
    """Return strings in the order of a `HashSet` that was created from their sorted list."""
    distinct = sorted(set(keys))
    return hash_order(distinct, java_hash, copied_capacity(len(distinct)))


def timeline_order(keys: Iterable[str], capacity: int) -> list[str]:
    """Return strings in the order of Kafka's `TimelineHashMap`, after adding them one by one.

    The slot of a key is the upper bits of a product (Fibonacci hashing). Within a slot, the key
    that was added last comes first.
    """
    shift = 65 - capacity.bit_length()

    def slot(key: str) -> int:
        return (java_hash(key) * _FIBONACCI & _MASK) >> shift

    last_first = list(keys)
    last_first.reverse()
    return sorted(last_first, key=slot)


def timeline_capacity(capacity: int, size: int) -> int:
    """Return the number of slots of a `TimelineHashMap` after a put.

    `capacity` and `size` are the number of slots and of keys before the put. The table may grow
    even if the key exists already.
    """
    return capacity * 2 if (size + 1) * 3 > capacity * 4 else capacity


def uuid_hash(uuid: bytes) -> int:
    """Return Kafka's `Uuid.hashCode`."""
    a, b, c, d = _UUID_WORDS.unpack(uuid)
    return int(a ^ b ^ c ^ d)


def integer_hash(value: int) -> int:
    """Return Java's `Integer.hashCode`."""
    return value
