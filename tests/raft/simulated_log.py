"""The log and the disk of a simulated node, as lists."""

from typing import NamedTuple

from odradek.core.raft.log_view import OffsetAndEpoch
from odradek.core.raft.voters import (
    ReplicaKey,
    Voter,
    VoterEndpoint,
    VoterHistory,
    VoterSet,
)


class Entry(NamedTuple):
    """One record: the value is a number, the name of a leader, or a voter set."""

    epoch: int
    value: object


def voter(node_id):
    key = ReplicaKey(node_id, bytes([node_id] * 16))
    return Voter(key, (VoterEndpoint("CONTROLLER", f"node{node_id}", 9093),))


class Snapshot(NamedTuple):
    """The first entries of the log."""

    entries: tuple[Entry, ...]
    voters: VoterSet


class Log:
    """The log of one node, with its disk. A `LogView`."""

    def __init__(self, voters):
        self.start_offset = 0
        self.entries = []
        self.flushed_offset = 0
        self.is_ready = True
        self.history = VoterHistory(voters)
        self.snapshots = {}
        self.kraft_version = 1

    @property
    def end_offset(self):
        return self.start_offset + len(self.entries)

    @property
    def last_epoch(self):
        if self.entries:
            return self.entries[-1].epoch
        return self.latest_snapshot.epoch if self.snapshots else 0

    @property
    def earliest_snapshot(self):
        return min(self.snapshots, default=None)

    @property
    def latest_snapshot(self):
        return max(self.snapshots, default=None)

    @property
    def voters(self):
        return self.history.latest

    @property
    def voters_offset(self):
        return self.history.latest_offset

    def end_offset_for(self, epoch):
        found = OffsetAndEpoch(self.end_offset, self.last_epoch)
        if not self.entries or epoch > self.entries[-1].epoch:
            return found
        for index in range(len(self.entries) - 1, -1, -1):
            if self.entries[index].epoch <= epoch:
                return OffsetAndEpoch(self.start_offset + index + 1, self.entries[index].epoch)
        return OffsetAndEpoch(self.start_offset, epoch)

    def at(self, offset):
        return self.entries[offset - self.start_offset]

    def append(self, entry):
        if isinstance(entry.value, VoterSet):
            self.history.add(self.end_offset, entry.value)
        self.entries.append(entry)

    def truncate(self, offset):
        del self.entries[max(0, offset - self.start_offset) :]
        self.flushed_offset = min(self.flushed_offset, offset)
        self.history.truncate_to(offset)

    def prefix(self, end_offset):
        """All entries before an offset, also those that are only in a snapshot."""
        first = ()
        if self.start_offset:
            first = self.snapshots[self.latest_snapshot].entries[: self.start_offset]
        return (*first, *self.entries)[:end_offset]

    def take_snapshot(self, end_offset):
        """Take a snapshot, and delete the log before it."""
        if end_offset <= self.start_offset:
            return
        entries = self.prefix(end_offset)
        self.snapshots[OffsetAndEpoch(end_offset, entries[-1].epoch)] = Snapshot(
            entries, self.history.at(end_offset)
        )
        del self.entries[: end_offset - self.start_offset]
        self.start_offset = end_offset
        self.flushed_offset = max(self.flushed_offset, end_offset)
        self.history.start_at(end_offset)
        for old in sorted(self.snapshots)[:-1]:
            del self.snapshots[old]

    def install(self, snapshot_id, snapshot):
        """Replace the log with a snapshot."""
        self.entries.clear()
        self.snapshots = {snapshot_id: snapshot}
        self.start_offset = self.flushed_offset = snapshot_id.offset
        self.history = VoterHistory(snapshot.voters)

    def crash(self, rng):
        """Lose a random number of the last entries. Entries that are flushed are not lost."""
        self.truncate(rng.randint(self.flushed_offset, self.end_offset))
        self.flushed_offset = self.end_offset
        self.is_ready = True
