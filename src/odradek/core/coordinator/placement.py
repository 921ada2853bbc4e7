"""Maps keys (group ids, transactional ids) to partitions of a coordinator's topic.

The mapping is the same as in Apache Kafka.
"""

from __future__ import annotations

from functools import lru_cache
from struct import iter_unpack
from typing import Final

INT_MIN: Final = -(2**31)


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: a signed 32-bit hash of the UTF-16 units."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        for (unit,) in iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
            value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@lru_cache(maxsize=16_384)
def partition_for(key: str, partition_count: int) -> int:
    """Return `abs(hash) % partition_count`.

    The absolute value of the smallest 32-bit number is 0, as in Kafka's `Utils.abs`.
    """
    value = java_hash(key)
    return 0 if value == INT_MIN else abs(value) % partition_count
