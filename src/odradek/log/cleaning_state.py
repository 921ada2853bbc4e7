"""How far a log is compacted, and whether that goes on at this moment."""

from __future__ import annotations

NOTHING = -1


class CleaningState:
    """Of one log. Told by the cleaner, and by the log when it is truncated."""

    __slots__ = ("first_dirty_offset", "is_under_way")

    def __init__(self) -> None:
        self.first_dirty_offset = NOTHING
        """All before it has been compacted; -1: nothing has."""
        self.is_under_way = False
        """The cleaner copies old segments: they are to stay until it has ended."""

    def begin(self) -> None:
        """The cleaner begins a round."""
        self.is_under_way = True

    def end(self) -> None:
        """The round has ended, or was given up."""
        self.is_under_way = False

    def cleaned_to(self, offset: int) -> None:
        """All before the offset is compacted, and survives a crash so."""
        self.first_dirty_offset = offset

    def truncated_to(self, offset: int) -> None:
        """The log ends at the offset."""
        self.first_dirty_offset = min(self.first_dirty_offset, offset)
