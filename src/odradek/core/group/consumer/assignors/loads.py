"""Who of a topic's subscribers has least, and who has most, while partitions move between them."""

from __future__ import annotations

from collections.abc import Sequence


class Loads:
    """Members by load when it began. Takers come from the left, givers from the right.

    Takers are a range that begins at the member with the least: each of them takes one partition,
    then their level is one higher and the range grows by those who were at that level from the
    beginning. Givers are such a range at the other end, whose level sinks. `sizes` is the caller's,
    who keeps it up to date meanwhile.
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
        """Whether the levels of both ranges have met."""
        return self._most_level - self._least_level <= 1

    def _size(self, position: int) -> int:
        return self._sizes[self._sorted[position]]

    def next_least(self) -> int:
        """The member that takes the next partition."""
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
                # All of the range were excluded: begin another one with the next member.
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
        """The member that `next_most` gave has nothing to give: put it behind the range."""
        here, end = self._next_most + 1, self._most_end - 1
        self._sorted[here], self._sorted[end] = self._sorted[end], self._sorted[here]
        self._most_end -= 1
