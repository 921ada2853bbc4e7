"""The order in which a Java `HashMap` yields strings.

Where Apache Kafka lets that order decide (between equal votes, equal load), the same decision
takes the same order.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.coordinator.placement import java_hash

_TABLE_SIZE_MIN = 16


def java_hash_order(keys: Iterable[str]) -> list[str]:
    """Distinct keys in the order of a `HashMap` into which they were put in the given order.

    Exact as long as no bucket becomes a tree (8 keys in one bucket of 64 or more).
    """
    found = list(dict.fromkeys(keys))
    size = _TABLE_SIZE_MIN
    while len(found) > size * 3 // 4:
        size *= 2
    return sorted(found, key=lambda key: _spread(java_hash(key)) & (size - 1))


def _spread(value: int) -> int:
    value &= 0xFFFFFFFF
    return value ^ (value >> 16)
