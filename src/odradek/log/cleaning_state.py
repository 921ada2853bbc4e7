"""How far a log is compacted, and whether a round of cleaning is running."""

from __future__ import annotations

NOTHING = -1


class CleaningState:
    """State of one log. Updated by the cleaner, and by the log when it is truncated."""

    __slots__ = ("first_dirty_offset", "is_under_way")

    def __init__(self) -> None:
        self.first_dirty_offset = NOTHING
        """All offsets below have been compacted; -1: none."""
        self.is_under_way = False
        """Whether the cleaner copies old segments, which must not be deleted until it has ended."""

    def begin(self) -> None:
        """The cleaner begins a round."""
        self.is_under_way = True

    def end(self) -> None:
        """The round has ended or was cancelled."""
        self.is_under_way = False

    def cleaned_to(self, offset: int) -> None:
        """All offsets below this one are compacted, and this survives a crash."""
        self.first_dirty_offset = offset

    def truncated_to(self, offset: int) -> None:
        """The log ends at the offset."""
        self.first_dirty_offset = min(self.first_dirty_offset, offset)
