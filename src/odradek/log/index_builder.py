"""Builds the sparse indexes of a segment. The entries are the same as after appends."""

from __future__ import annotations

from odradek.log.index import OffsetIndex, TimeIndex


class IndexBuilder:
    """Builds the index entries of a segment. Add all batches of the segment in order."""

    __slots__ = (
        "_base_offset",
        "_bytes_since_entry",
        "_interval_bytes",
        "_last_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "offset_entries",
        "time_entries",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._bytes_since_entry = 0
        self._last_timestamp = -1
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self.offset_entries = bytearray()
        """The content of the `.index` so far."""
        self.time_entries = bytearray()
        """The content of the `.timeindex` so far. It is complete after `finish`."""

    def add(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add the batch at `position`."""
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._bytes_since_entry > self._interval_bytes:
            relative = last_offset - self._base_offset
            self.offset_entries += OffsetIndex.ENTRY.pack(relative, position)
            self.finish()
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def finish(self) -> None:
        """Add the time index entry of the largest timestamp, if the entry is missing."""
        if self._max_timestamp > self._last_timestamp:
            relative = self._max_timestamp_offset - self._base_offset
            self.time_entries += TimeIndex.ENTRY.pack(self._max_timestamp, relative)
            self._last_timestamp = self._max_timestamp
