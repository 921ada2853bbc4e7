"""Java's `PriorityQueue`. The order of entries with the same priority decides assignments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

EntryT = TypeVar("EntryT")


class JavaPriorityQueue(Generic[EntryT]):
    """A binary heap that moves entries exactly as in Java.

    The priority of an entry may change only while the entry is not in the queue.
    """

    __slots__ = ("_heap", "_priority_of")

    def __init__(
        self, priority_of: Callable[[EntryT], float], entries: Iterable[EntryT] = ()
    ) -> None:
        self._heap: list[EntryT] = []
        self._priority_of = priority_of
        for each in entries:
            self.add(each)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, entry: EntryT) -> None:
        """Add an entry. It rises above entries with a higher priority number."""
        heap, priority = self._heap, self._priority_of(entry)
        index = len(heap)
        heap.append(entry)
        while index:
            parent = (index - 1) // 2
            if priority >= self._priority_of(heap[parent]):
                break
            heap[index] = heap[parent]
            index = parent
        heap[index] = entry

    def poll(self) -> EntryT | None:
        """Remove and return the entry with the lowest priority number; None if there is none."""
        heap = self._heap
        if not heap:
            return None
        first, last = heap[0], heap.pop()
        if heap:
            self._sink(last)
        return first

    def _sink(self, entry: EntryT) -> None:
        heap, priority = self._heap, self._priority_of(entry)
        index, count = 0, len(heap)
        while index < count // 2:
            child = 2 * index + 1
            right = child + 1
            if right < count and self._priority_of(heap[child]) > self._priority_of(heap[right]):
                child = right
            if priority <= self._priority_of(heap[child]):
                break
            heap[index] = heap[child]
            index = child
        heap[index] = entry
