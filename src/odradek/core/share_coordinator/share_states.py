"""The states of the share partitions of one log, and which records of the log are redundant."""

from __future__ import annotations

from odradek.core.coordinator.journal import Journal
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.core.share_coordinator.share_state import ShareState


class ShareStates:
    """The states by share partition. They change only by the replay of records."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.by_key: dict[SharePartitionKey, ShareState] = {}
        self._snapshot_offsets: dict[SharePartitionKey, int] = {}
        self._last_deletion_offset = 0

    def put(self, key: SharePartitionKey, state: ShareState) -> None:
        """Set the state of a share partition."""
        self._journal.put(self.by_key, key, state)

    def put_snapshot(self, key: SharePartitionKey, state: ShareState, offset: int) -> None:
        """Set the state of a share partition. `offset` is the offset of its snapshot."""
        self.put(key, state)
        self._journal.put(self._snapshot_offsets, key, offset)

    def remove(self, key: SharePartitionKey, offset: int) -> None:
        """Remove a share partition. `offset` is the offset of the tombstone."""
        self._journal.remove(self.by_key, key)
        self._journal.remove(self._snapshot_offsets, key)
        self._journal.assign(self, "_last_deletion_offset", offset)

    def redundant_end(self) -> int:
        """Return the offset before which all records are redundant."""
        return min(self._snapshot_offsets.values(), default=self._last_deletion_offset)
