"""Which partition of a coordinator's topic a key belongs to, as every client computes it."""

from __future__ import annotations

from functools import lru_cache
from struct import iter_unpack
from typing import Final

INT_MIN: Final = -(2**31)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, in 32 bits, signed."""
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
    """`abs(hash) % count`; the smallest int, which has no absolute value, counts as 0."""
    value = java_hash(key)
    return 0 if value == INT_MIN else abs(value) % partition_count
