"""Finds the subscribers of a topic with the fewest and the most partitions."""

from __future__ import annotations

from collections.abc import Sequence


class Loads:
    """Members sorted by their initial load, which is their number of partitions.

    The receivers are the first members of this list, and all have the same load. Partitions are
    given to one receiver after the other. When each receiver has got one partition, their load is
    higher by one. Then the following members that already had this load also become receivers. The
    givers are the last members of the list. They lose partitions in the same way.

    `sizes` has the load of each member. The caller updates it.
    """

    def __init__(self, members: Sequence[int], sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._sorted = sorted(members, key=lambda number: (sizes[number], number))
        least, most = sizes[self._sorted[0]], sizes[self._sorted[-1]]
        self.imbalance = most - least
        self._least_end = 0
        self._least_level = least - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._sorted)
        self._most_level = most + 1
        self._next_most = len(self._sorted) - 1

    def is_balanced(self) -> bool:
        """Return whether the loads of receivers and givers differ by at most one."""
        return self._most_level - self._least_level <= 1

    def _size(self, position: int) -> int:
        return self._sizes[self._sorted[position]]

    def next_least(self) -> int:
        """Return the member that receives the next partition."""
        if self._next_least >= self._least_end:
            self._least_level += 1
            while (
                self._least_end < len(self._sorted)
                and self._size(self._least_end) == self._least_level
            ):
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._sorted[self._next_least - 1]

    def next_most(self) -> int | None:
        """Return the member that gives the next partition; None if all members were excluded."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # All givers were excluded, so the next members of the list become givers.
                self._most_level = self._size(self._most_start - 1)
            else:
                self._most_level -= 1
            while self._most_start > 0 and self._size(self._most_start - 1) == self._most_level:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._sorted[self._next_most + 1]

    def exclude_most(self) -> None:
        """Exclude the member that `next_most` returned, which has no partition to give."""
        here, end = self._next_most + 1, self._most_end - 1
        self._sorted[here], self._sorted[end] = self._sorted[end], self._sorted[here]
        self._most_end -= 1
