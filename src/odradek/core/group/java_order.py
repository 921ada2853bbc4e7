"""The order in which Java's hash tables yield their keys.

Where Apache Kafka lets that order decide (between equal votes, which partition a member gives
up, who is first), the same decision takes the same order. The order is that of the buckets, and
within a bucket that of insertion; it is exact unless a bucket becomes a tree (more than eight
keys in one bucket of 64 or more).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import TypeVar

from odradek.core.coordinator.placement import java_hash

KeyT = TypeVar("KeyT")

_CAPACITY_MIN = 16
_TIMELINE_CAPACITY_MIN = 2
_FIBONACCI = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF
_UUID_WORDS = Struct(">IIII")


def grown_capacity(count: int) -> int:
    """Buckets of a table that grew with its keys."""
    capacity = _CAPACITY_MIN
    while count > capacity * 3 // 4:
        capacity *= 2
    return capacity


def copied_capacity(count: int) -> int:
    """Buckets of a set that was made from a collection."""
    wanted = max(int(count / 0.75) + 1, _CAPACITY_MIN)
    return 1 << (wanted - 1).bit_length()


def hash_order(keys: Iterable[KeyT], hash_of: Callable[[KeyT], int], capacity: int) -> list[KeyT]:
    """Distinct keys by bucket; those of one bucket stay as they come."""
    mask = capacity - 1

    def bucket(key: KeyT) -> int:
        value = hash_of(key) & 0xFFFFFFFF
        return (value ^ (value >> 16)) & mask

    return sorted(keys, key=bucket)


def java_hash_order(keys: Iterable[str]) -> list[str]:
    """Strings in the order of a `HashMap` into which they were put one by one."""
    distinct = list(dict.fromkeys(keys))
    return hash_order(distinct, java_hash, grown_capacity(len(distinct)))


def timeline_order(keys: Iterable[str]) -> list[str]:
    """Strings in the order of Kafka's `TimelineHashMap`, into which they were put one by one.

    A slot is the upper bits of a product (Fibonacci hashing); its table grows, never shrinks. Exact
    unless the table was larger once.
    """
    ordered = list(keys)
    capacity = _TIMELINE_CAPACITY_MIN
    while len(ordered) * 3 > capacity * 4:
        capacity *= 2
    shift = 65 - capacity.bit_length()
    return sorted(ordered, key=lambda key: (java_hash(key) * _FIBONACCI & _MASK) >> shift)


def uuid_hash(uuid: bytes) -> int:
    """Kafka's `Uuid.hashCode`."""
    a, b, c, d = _UUID_WORDS.unpack(uuid)
    return int(a ^ b ^ c ^ d)


def integer_hash(value: int) -> int:
    """Java's `Integer.hashCode`."""
    return value
