"""Decides which log is cleaned next, and which logs are not cleaned.

- The cleaner offers each log that is due, with its dirty ratio. The log with the highest ratio is
  taken first.
- A log is uncleanable if its data cannot be cleaned. A log is also uncleanable if the worker has
  died twice while it cleaned this log. This lasts until the log is deleted or the node restarts.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from odradek.model.topic_partition import TopicPartition

DEATHS_MAX = 2


class Schedule:
    """The logs that are due, and the logs that are uncleanable."""

    def __init__(self) -> None:
        self._due: list[tuple[float, TopicPartition]] = []
        self._deaths: dict[TopicPartition, int] = {}
        self.uncleanable: dict[TopicPartition, str] = {}
        """The log directory of each uncleanable log."""

    def __len__(self) -> int:
        return len(self._due)

    def begin(self) -> None:
        """Begin a new round. Remove the offers of the previous round."""
        self._due.clear()

    def is_open(self, partition: TopicPartition) -> bool:
        """Return whether the log may be cleaned."""
        return partition not in self.uncleanable

    def offer(self, partition: TopicPartition, dirty_ratio: float) -> None:
        """Add a log that is due, unless it is uncleanable."""
        if self.is_open(partition):
            heappush(self._due, (-dirty_ratio, partition))

    def take(self) -> TopicPartition | None:
        """Remove and return the log with the highest dirty ratio; None if there is none."""
        return heappop(self._due)[1] if self._due else None

    def succeeded(self, partition: TopicPartition) -> None:
        """Record that the log was cleaned."""
        self._deaths.pop(partition, None)

    def failed(self, partition: TopicPartition, directory: str) -> None:
        """Record that the log cannot be cleaned."""
        self.uncleanable[partition] = directory
        self._deaths.pop(partition, None)

    def died(self, partition: TopicPartition, directory: str) -> bool:
        """Record that the worker died while it cleaned the log.

        Return True if the log is now uncleanable.
        """
        self._deaths[partition] = self._deaths.get(partition, 0) + 1
        if self._deaths[partition] < DEATHS_MAX:
            return False
        self.failed(partition, directory)
        return True

    def keep(self, is_here: Callable[[TopicPartition], bool]) -> None:
        """Remove logs for which `is_here` is false, because they do not exist any more."""
        for known in (self._deaths, self.uncleanable):
            for partition in [each for each in known if not is_here(each)]:
                del known[partition]
        self._due = [each for each in self._due if is_here(each[1])]
        heapify(self._due)
