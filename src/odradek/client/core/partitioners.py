"""Chooses the partition of a record.

The setting `partitioner` has librdkafka's names. The default, `murmur2_random`, is what Java's producer
does: the partition of a key is its murmur2 hash modulo the number of partitions. `consistent_random` is
librdkafka's default, with CRC-32 instead. With these two, records without a key *stick* to one partition
until it has received the size of a batch (KIP-480, KIP-794). Then another partition is drawn. The
probability of a partition decreases with the number of batches that wait there.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.client.core.backoff import RandomNumber

if TYPE_CHECKING:
    from mypy_extensions import i64

MURMUR2: Final = "murmur2"
CONSISTENT: Final = "consistent"
RANDOM: Final = "random"
MURMUR2_RANDOM: Final = "murmur2_random"
CONSISTENT_RANDOM: Final = "consistent_random"
PARTITIONERS: Final = (MURMUR2_RANDOM, CONSISTENT_RANDOM, MURMUR2, CONSISTENT, RANDOM)

_MASK: Final = 0xFFFFFFFF
_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash as an unsigned number
    (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    length: i64 = len(data)
    value: i64 = _SEED ^ length
    position: i64 = 0
    end: i64 = length & -4
    while position < end:
        low: i64 = data[position] | data[position + 1] << 8
        high: i64 = data[position + 2] | data[position + 3] << 8
        word: i64 = (low | high << 16) * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
        position += 4
    if position < length:
        rest: i64 = 0
        shift: i64 = 0
        while position < length:
            byte: i64 = data[position]
            rest |= byte << shift
            position += 1
            shift += 8
        value = (value ^ rest) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key, as Java's producer does."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class KeyPartitioner:
    """Chooses partitions by key, with one of the `PARTITIONERS`."""

    def __init__(self, name: str, *, ignores_keys: bool = False) -> None:
        assert name in PARTITIONERS
        self.draws_null = name not in (MURMUR2, CONSISTENT) or ignores_keys
        """Whether any partition will do for records without a key."""
        self._is_random = name == RANDOM or ignores_keys
        self._is_murmur2 = name in (MURMUR2, MURMUR2_RANDOM)
        self._draws_empty = name == CONSISTENT_RANDOM

    def partition(self, key: bytes | None, partition_count: int) -> int:
        """Return the partition of a key, or -1 if any partition will do."""
        if self._is_random:
            return -1
        if key is None:
            if self.draws_null:
                return -1
            key = b""
        elif self._draws_empty and not key:
            return -1
        if self._is_murmur2:
            return partition_for_key(key, partition_count)
        return zlib.crc32(key) % partition_count


class StickyPartition:
    """The partition of the records of a topic that have no key."""

    def __init__(self, random: RandomNumber, stick_bytes: int) -> None:
        """`stick_bytes` is the size after which another partition is chosen."""
        self.current = -1
        """The partition; -1 if one must be chosen."""
        self._random = random
        self._stick_bytes = max(stick_bytes, 1)
        self._sent_bytes = 0

    def sent(self, size: int, *, is_full: bool) -> None:
        """Count the bytes of a record. `is_full` says that its batch is complete."""
        self._sent_bytes += size
        if self._sent_bytes >= self._stick_bytes and (
            is_full or self._sent_bytes >= 2 * self._stick_bytes
        ):
            self.current = -1

    def choose(self, led: Sequence[int], lengths: Sequence[int]) -> int:
        """Choose one of the partitions `led`, by the numbers of batches that wait in them."""
        longest = max(lengths)
        weights = [longest + 1 - each for each in lengths]
        drawn = self._random() % sum(weights)
        chosen = 0
        while drawn >= weights[chosen]:
            drawn -= weights[chosen]
            chosen += 1
        self.current = led[chosen]
        self._sent_bytes = 0
        return self.current
