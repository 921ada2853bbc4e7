"""The metadata log as the quorum machine sees it, and the changes that a follower makes to it.

`ReplicatedLog` keeps kraft.version and the voters equal to the control records of the log. So every
append of control records and every truncation must use its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odradek.broker.raft.control import ControlMessage, QuorumSettings
from odradek.broker.raft.metadata_log import MetadataLog, replay_settings
from odradek.broker.raft.snapshots import Snapshot, SnapshotId
from odradek.core.raft.log_view import OffsetAndEpoch
from odradek.core.raft.voters import VoterSet
from odradek.log.errors import DiskFull, LogDirectoryOffline
from odradek.records.batch import Buffer

Done = Callable[[Exception | None], None]


class ReplicatedLog:
    """A `LogView` of a `MetadataLog`."""

    def __init__(self, log: MetadataLog, static_voters: VoterSet) -> None:
        """`static_voters` are the configured voters, for quorums of kraft.version 0.

        Raises:
            DamagedFile: a snapshot cannot be read.
            LogDirectoryOffline, OSError: the disk failed.
        """
        self._log = log
        self._static_voters = static_voters
        self._is_installing = False
        self.settings = QuorumSettings(static_voters)
        offset = log.start_offset
        latest = log.latest_snapshot
        if latest is not None:
            self._start_at(log.read_snapshot(latest))
            offset = latest.offset
        self._replay(offset)

    def _start_at(self, snapshot: Snapshot) -> None:
        """Set kraft.version and the voters. For kraft.version 0 the voters are configured."""
        is_static = snapshot.settings.kraft_version == 0
        self.settings = QuorumSettings(self._static_voters) if is_static else snapshot.settings

    def _replay(self, offset: int) -> None:
        """Replay the control records of the log from `offset` on."""
        for batch in self._log.batches(offset):
            if batch.is_control:
                replay_settings(self.settings, batch)

    # -- the view -------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """See `LogView`."""
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        """See `LogView`."""
        return self._log.end_offset

    @property
    def flushed_offset(self) -> int:
        """See `LogView`."""
        return self._log.flushed_offset

    @property
    def is_ready(self) -> bool:
        """See `LogView`."""
        return not self._is_installing and not self._log.is_truncating

    @property
    def last_epoch(self) -> int:
        """See `LogView`."""
        return self._log.last_epoch

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """See `LogView`."""
        return self._log.snapshots[0] if self._log.snapshots else None

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """See `LogView`."""
        return self._log.latest_snapshot

    @property
    def voters(self) -> VoterSet:
        """See `LogView`."""
        return self.settings.voters

    @property
    def voters_offset(self) -> int:
        """See `LogView`."""
        return self.settings.voters_offset

    @property
    def kraft_version(self) -> int:
        """See `LogView`."""
        return self.settings.kraft_version

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch:
        """See `LogView`."""
        return self._log.end_offset_for(epoch)

    # -- changes --------------------------------------------------------------------------------

    def append_control(self, messages: Iterable[ControlMessage], epoch: int, now_ms: int) -> None:
        """As leader, append control records as one batch.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        offset = self._log.end_offset
        messages = list(messages)
        self._log.append_control(messages, epoch, now_ms)
        for kind, message in messages:
            self.settings.replay(kind, message, offset)

    def append_from_leader(self, records: Buffer, epoch: int) -> None:
        """As follower, append batches.

        Raises:
            RecordsRefused: a batch is damaged, or does not continue the log.
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        before = self._log.end_offset
        try:
            self._log.append_from_leader(records, epoch)
        finally:
            self._replay(before)

    def truncate_to(self, offset: int, done: Done) -> None:
        """Remove the records from `offset` on; `done` is called when a crash cannot undo this.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        self.settings.truncate_to(offset)
        self._log.truncate_to(offset, done)

    def begin_install(self) -> None:
        """Prepare for `install`: the last part of the snapshot is being written."""
        self._is_installing = True

    def install(self, snapshot_id: SnapshotId, snapshot: Snapshot | None, done: Done) -> None:
        """Replace the log with a snapshot that was fetched. None: the snapshot is unusable.

        Raises:
            OSError, LogDirectoryOffline: the disk failed.
        """
        if snapshot is None:
            self._is_installing = False
            return

        def installed(refusal: DiskFull | LogDirectoryOffline | None) -> None:
            self._is_installing = False
            done(refusal)

        self._start_at(snapshot)
        self._log.install(snapshot_id, installed)
