"""The orders of Java's collections, which Kafka Streams' results depend on.

Among equal timestamps a task takes the record that Java's PriorityQueue gives. The text of a
topology lists stores in the order of a HashMap, and `suppress` writes its changelog in that of a
HashSet of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from odradek.model.java_hash import java_hash

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """Java's binary heap. Elements with equal times come out in Java's order."""

    def __init__(self, time_of: Callable[[T], int]) -> None:
        self._time_of = time_of
        self._heap: list[tuple[int, T]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def peek(self) -> T | None:
        """Return the element with the lowest time."""
        return self._heap[0][1] if self._heap else None

    def offer(self, element: T) -> None:
        """Add an element. Its time must not change while it is in the queue."""
        heap = self._heap
        entry = (self._time_of(element), element)
        heap.append(entry)
        place = len(heap) - 1
        while place > 0:
            parent = (place - 1) >> 1
            above = heap[parent]
            if entry[0] >= above[0]:
                break
            heap[place] = above
            place = parent
        heap[place] = entry

    def poll(self) -> T | None:
        """Remove and return the element with the lowest time."""
        heap = self._heap
        if not heap:
            return None
        first = heap[0][1]
        last = heap.pop()
        count = len(heap)
        if count:
            place = 0
            half = count >> 1
            while place < half:
                child = 2 * place + 1
                if child + 1 < count and heap[child][0] > heap[child + 1][0]:
                    child += 1
                below = heap[child]
                if last[0] <= below[0]:
                    break
                heap[place] = below
                place = child
            heap[place] = last
        return first

    def clear(self) -> None:
        """Remove all elements."""
        self._heap.clear()


def bytes_hash(data: bytes) -> int:
    """Return Java's `Arrays.hashCode(byte[])` as an unsigned number of 32 bits."""
    value = 1
    for byte in data:
        value = (31 * value + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
    return value


def _hash(element: Any) -> int:
    if isinstance(element, bytes):
        return bytes_hash(element)
    return java_hash(element) & 0xFFFFFFFF


def hash_order(elements: Iterable[str] | Iterable[bytes], capacity: int = 16) -> list[Any]:
    """Return the elements in the order of a Java HashSet to which they were added one by one."""
    distinct: list[Any] = list(dict.fromkeys(elements))
    places = buckets([_hash(element) for element in distinct], capacity)
    return [distinct[place] for place in sorted(range(len(distinct)), key=places.__getitem__)]


def buckets(hashes: list[int], capacity: int = 16) -> list[int]:
    """Return the places of distinct elements with these hashes in a Java HashMap."""
    while len(hashes) > capacity * 3 // 4:
        capacity *= 2
    return [(each ^ (each >> 16)) & (capacity - 1) for each in hashes]


def partition_order(partitions: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return topics and partitions in the order of a HashMap with Kafka's TopicPartitions as keys.

    Those of one place are in the order in which they are added: that of another HashMap, by topic
    (`TopologyTestDriver.partitionsByInputTopic`).
    """
    topics = {
        topic: place for place, topic in enumerate(hash_order(each for each, _ in partitions))
    }
    added = sorted(partitions, key=lambda each: (topics[each[0]], each[1]))
    hashes = [(31 * (31 + partition) + java_hash(topic)) & 0xFFFFFFFF for topic, partition in added]
    places = buckets(hashes)
    return [added[place] for place in sorted(range(len(hashes)), key=places.__getitem__)]
