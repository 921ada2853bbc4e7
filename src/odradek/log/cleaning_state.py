"""The progress of the compaction of a log."""

from __future__ import annotations

NOTHING = -1


class CleaningState:
    """The state of one log. The cleaner and truncations of the log update the state."""

    __slots__ = ("first_dirty_offset", "is_under_way")

    def __init__(self) -> None:
        self.first_dirty_offset = NOTHING
        """All offsets below this offset have been compacted; -1 if the log was never compacted."""
        self.is_under_way = False
        """Whether the cleaner copies segments of the log. If so, no segment may be deleted."""

    def begin(self) -> None:
        """Record that the cleaner begins a round."""
        self.is_under_way = True

    def end(self) -> None:
        """Record that the round has ended or was cancelled."""
        self.is_under_way = False

    def cleaned_to(self, offset: int) -> None:
        """Record that all offsets below `offset` are compacted, also after a crash."""
        self.first_dirty_offset = offset

    def truncated_to(self, offset: int) -> None:
        """Record that the log was truncated to `offset`."""
        self.first_dirty_offset = min(self.first_dirty_offset, offset)
