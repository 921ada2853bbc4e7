"""Decides which log is cleaned next, and which ones are not cleaned.

- Logs that are due are offered with their dirty ratio; the dirtiest is taken first.
- A log whose data cannot be cleaned is uncleanable until it is deleted or the node restarts. So is
  a log during whose cleaning the worker has died twice.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from odradek.model.topic_partition import TopicPartition

DEATHS_MAX = 2


class Schedule:
    """See the module."""

    def __init__(self) -> None:
        self._due: list[tuple[float, TopicPartition]] = []
        self._deaths: dict[TopicPartition, int] = {}
        self.uncleanable: dict[TopicPartition, str] = {}
        """The log directory of each uncleanable log."""

    def __len__(self) -> int:
        return len(self._due)

    def begin(self) -> None:
        """Begin a new round: drop the previous offers."""
        self._due.clear()

    def is_open(self, partition: TopicPartition) -> bool:
        """Whether the log may be cleaned at all."""
        return partition not in self.uncleanable

    def offer(self, partition: TopicPartition, dirty_ratio: float) -> None:
        """Add a log that is due."""
        if self.is_open(partition):
            heappush(self._due, (-dirty_ratio, partition))

    def take(self) -> TopicPartition | None:
        """The dirtiest log."""
        return heappop(self._due)[1] if self._due else None

    def succeeded(self, partition: TopicPartition) -> None:
        """The log was cleaned."""
        self._deaths.pop(partition, None)

    def failed(self, partition: TopicPartition, directory: str) -> None:
        """The log cannot be cleaned."""
        self.uncleanable[partition] = directory
        self._deaths.pop(partition, None)

    def died(self, partition: TopicPartition, directory: str) -> bool:
        """The worker died while cleaning the log; return True if the log is now uncleanable."""
        self._deaths[partition] = self._deaths.get(partition, 0) + 1
        if self._deaths[partition] < DEATHS_MAX:
            return False
        self.failed(partition, directory)
        return True

    def keep(self, is_here: Callable[[TopicPartition], bool]) -> None:
        """Forget logs that do not exist any more."""
        for known in (self._deaths, self.uncleanable):
            for partition in [each for each in known if not is_here(each)]:
                del known[partition]
        self._due = [each for each in self._due if is_here(each[1])]
        heapify(self._due)
