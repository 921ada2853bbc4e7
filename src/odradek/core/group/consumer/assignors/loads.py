"""Tracks the subscribers of a topic with the fewest and the most partitions while these move."""

from __future__ import annotations

from collections.abc import Sequence


class Loads:
    """Members sorted by their initial load. Receivers are on the left, givers on the right.

    The receivers are a range that begins at the member with the smallest load. When each of them
    has received one partition, their level rises by one, and the range grows by the members that
    have been at that level from the beginning. The givers are a similar range at the other end,
    whose level falls. `sizes` belongs to the caller, who updates it.
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
        """Whether the levels of both ranges are equal."""
        return self._most_level - self._least_level <= 1

    def _size(self, position: int) -> int:
        return self._sizes[self._sorted[position]]

    def next_least(self) -> int:
        """The member that receives the next partition."""
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
        """The member that gives the next partition; None if all were excluded."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # All members of the range were excluded: begin another range with the next member.
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
