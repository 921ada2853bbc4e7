"""Maps keys (group ids, transactional ids) to partitions of a coordinator's topic.

The mapping is the same as in Apache Kafka.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from odradek.model.java_hash import java_hash

INT_MIN: Final = -(2**31)


@lru_cache(maxsize=16_384)
def partition_for(key: str, partition_count: int) -> int:
    """Return `abs(hash) % partition_count`.

    The absolute value of the smallest 32-bit number is 0, as in Kafka's `Utils.abs`.
    """
    value = java_hash(key)
    return 0 if value == INT_MIN else abs(value) % partition_count
