"""Chooses the partition of a record, as Apache Kafka's Java producer does.

The partition of a key is the key's murmur2 hash modulo the number of partitions. Records without a
key go to one random partition until this partition has received the size of a batch. Then the
partitioner chooses a random partition again (KIP-480, KIP-794).
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import unpack_from

from odradek.client.metadata import Partition, Topic
from odradek.env.randomness import RandomBytes

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash as an unsigned number
    (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    length = len(data)
    value = _SEED ^ length
    words = length >> 2
    for word in unpack_from(f"<{words}I", data):
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    rest = data[words << 2 :]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Chooses partitions for records without a key."""

    def __init__(self, random_bytes: RandomBytes, stick_bytes: int) -> None:
        """`stick_bytes` is the size of the records after which another partition is chosen."""
        self._random_bytes = random_bytes
        self._stick_bytes = stick_bytes
        self._current: dict[str, int] = {}
        self._sent_bytes: dict[str, int] = {}

    def partition(self, topic: Topic, record_bytes: int) -> int:
        """Return the partition for a record.

        A new partition is chosen from the partitions with a leader, or from all if none has one.
        """
        name = topic.name
        sent = self._sent_bytes.get(name, self._stick_bytes)
        if sent >= self._stick_bytes or self._current[name] not in topic.partitions:
            self._current[name] = self._choose(topic.partitions)
            sent = 0
        self._sent_bytes[name] = sent + record_bytes
        return self._current[name]

    def _choose(self, partitions: Mapping[int, Partition]) -> int:
        led = [index for index, p in partitions.items() if p.leader >= 0] or list(partitions)
        return led[int.from_bytes(self._random_bytes(4), "big") % len(led)]
