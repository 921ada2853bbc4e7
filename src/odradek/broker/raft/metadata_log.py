"""The directory `__cluster_metadata-0`: a partition log, snapshots, and the voter's election state.

The log is a `PartitionLog`. As in Apache Kafka, every start checks the whole log: the log is small,
and everything else depends on it. The log may begin after offset 0 only if a snapshot contains the
missing records. A snapshot that ends after the log replaces the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from odradek.broker.raft.control import (
    ControlMessage,
    QuorumSettings,
    control_batch_of,
    control_messages,
)
from odradek.broker.raft.quorum_state import QUORUM_STATE, read_election, write_election
from odradek.broker.raft.quorum_times import QuorumTimes
from odradek.broker.raft.snapshots import (
    Snapshot,
    SnapshotId,
    SnapshotPart,
    parse_name,
    partial_name,
    read_snapshot,
    write_snapshot,
)
from odradek.config.broker_config import BrokerConfig
from odradek.config.topic_config import TopicConfig
from odradek.core.raft.election import ElectionState
from odradek.core.raft.log_view import OffsetAndEpoch
from odradek.core.raft.voters import VoterSet
from odradek.env.file_system import CREATE, CREATE_EMPTY, READ_ONLY, write_fully
from odradek.log import names
from odradek.log.checkpoints import write_partition_metadata
from odradek.log.directory import LogDirectory
from odradek.log.errors import DamagedFile
from odradek.log.flush_state import FlushWork, Truncated
from odradek.log.origin import AppendOrigin
from odradek.log.partition_log import PartitionLog
from odradek.log.startup import open_log
from odradek.log.storage import Storage
from odradek.model.topic_partition import TopicPartition
from odradek.model.uuids import METADATA_TOPIC_ID
from odradek.records.batch import Buffer, RecordBatch, iterate_batches
from odradek.records.builder import RecordBatchBuilder

log = logging.getLogger("odradek.metadata")

METADATA_PARTITION = TopicPartition(names.METADATA_TOPIC, 0)
BATCH_SIZE_MAX = 8 << 20
"""Largest batch: the maximum that Apache Kafka's readers of the log accept."""
_READ_SIZE = 1 << 20


class MetadataLog:
    """The log, the snapshots and the election state of one directory.

    All methods are called on one thread, except where the method says otherwise.
    """

    def __init__(self, partition_log: PartitionLog, storage: Storage, path: str) -> None:
        self._log = partition_log
        self._storage = storage
        self._file_system = storage.file_system
        self.path = path
        self.snapshots: list[SnapshotId] = []
        """The snapshots on disk, oldest first."""
        self.times = QuorumTimes()
        """How long commits and elections take."""
        self.records_appended = 0
        """Records that this node has appended as leader since its start (a metric)."""
        self.records_fetched = 0
        """Records that this node has fetched from a leader since its start (a metric)."""

    @classmethod
    def open(cls, storage: Storage, directory: LogDirectory, config: BrokerConfig) -> MetadataLog:
        """Open the log in a log directory; create it if it does not exist.

        Raises:
            DamagedFile: the log begins after an offset that no snapshot covers.
            LogDirectoryOffline: the disk failed.
            OSError: the disk failed.
        """
        partition_log = open_log(
            storage,
            directory,
            METADATA_PARTITION,
            _log_config(config),
            topic_id=METADATA_TOPIC_ID,
        )
        path = directory.file(str(METADATA_PARTITION))
        metadata = f"{path}/{names.PARTITION_METADATA}"
        if storage.file_system.status(metadata) is None:
            write_partition_metadata(storage.file_system, metadata, METADATA_TOPIC_ID, sync=False)
            partition_log.partition_directory.on_names_changed()
        self = cls(partition_log, storage, path)
        self._find_snapshots()
        return self

    def _find_snapshots(self) -> None:
        """Keep complete snapshots that reach the log's start, and remove the others."""
        for entry in self._file_system.scan(self.path):
            found = parse_name(entry.name)
            if found is None:
                continue
            if found.is_whole and found.id.offset >= self._log.log_start_offset:
                self.snapshots.append(found.id)
            else:
                self._file_system.remove(f"{self.path}/{entry.name}")
        self.snapshots.sort()
        start = self._log.log_start_offset
        if start > 0 and not self.snapshots:
            raise DamagedFile(
                f"{self.path} begins at offset {start}, and no snapshot holds what was before; "
                "restore the .checkpoint files of the directory from a backup"
            )
        latest = self.latest_snapshot
        if latest is not None and self._is_beyond_log(latest):
            log.warning("%s: the snapshot %s replaces the log", self.path, latest.name)
            self._log.truncate_fully_and_start_at(latest.offset)
            self._remove(each for each in self.snapshots if each != latest)

    def _is_beyond_log(self, snapshot: SnapshotId) -> bool:
        """Whether the snapshot has records that the log does not have.

        This is also the case if the snapshot's epoch is newer than the log's last epoch: then the
        snapshot came from a leader whose log differs from this log.
        """
        if snapshot.offset == self._log.log_start_offset == self._log.log_end_offset:
            return False
        epoch = max(self._log.leader_epochs.latest, 0)
        return snapshot.epoch > epoch or snapshot.offset > self._log.log_end_offset

    # -- offsets --------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """The first offset in the log itself, not only in snapshots."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, or of the snapshot if the log is empty; 0 if there is
        nothing."""
        latest = self.latest_snapshot
        return max(self._log.leader_epochs.latest, latest.epoch if latest is not None else 0, 0)

    @property
    def flushed_offset(self) -> int:
        """All records below this offset survive a crash."""
        return self._log.recovery_point

    @property
    def is_truncating(self) -> bool:
        """Whether a crash could undo the last truncation."""
        return self._log.flush_state.is_truncating

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch that is not above `epoch`, and its end offset; else the log's end."""
        found, offset = self._log.end_offset_for_epoch(epoch)
        if offset < 0:
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        return OffsetAndEpoch(offset, found)

    @property
    def size(self) -> int:
        """Bytes of the log, without snapshots."""
        return self._log.size

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The snapshot with the highest end offset."""
        return self.snapshots[-1] if self.snapshots else None

    def snapshot_bytes(self) -> int:
        """Return the size of the latest snapshot; 0 if there is none. May be called on any thread."""
        latest = self.latest_snapshot
        status = None if latest is None else self._file_system.status(f"{self.path}/{latest.name}")
        return 0 if status is None else status.size

    # -- the log --------------------------------------------------------------------------------

    def append(self, values: Iterable[bytes], epoch: int, now_ms: int) -> tuple[int, int]:
        """Append records as one batch; return its first offset and its size.

        Raises:
            BatchTooLarge, DiskFull: nothing was appended.
            LogDirectoryOffline: the disk failed.
        """
        base_offset = self._log.log_end_offset
        builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=epoch)
        for value in values:
            builder.append(now_ms, None, value)
        if builder.size > BATCH_SIZE_MAX:
            raise BatchTooLarge(builder.size)
        batch = builder.build()
        self._log.append_as_leader(batch, epoch, AppendOrigin.RAFT_LEADER)
        self.records_appended += self._log.log_end_offset - base_offset
        self.times.on_appended(self._log.log_end_offset, self._storage.clock.monotonic_ms())
        return base_offset, len(batch)

    def append_control(self, messages: Iterable[ControlMessage], epoch: int, now_ms: int) -> None:
        """Append control records as one batch.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        batch = control_batch_of(messages, self._log.log_end_offset, epoch, now_ms)
        self._log.append_as_leader(batch, epoch, AppendOrigin.RAFT_LEADER)

    def append_from_leader(self, records: Buffer, epoch: int) -> int:
        """Append the batches that the leader of `epoch` sent; return the log's old end.

        Raises:
            RecordsRefused: a batch is damaged, or does not continue the log.
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        end_offset = self._log.log_end_offset
        self.times.on_new_epoch()
        self._log.append_as_follower(records, epoch)
        self.records_fetched += self._log.log_end_offset - end_offset
        return end_offset

    def truncate_to(self, offset: int, truncated: Truncated) -> None:
        """Remove the records from `offset` on. `truncated` is called when a crash cannot undo this.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        self._log.truncate_to(offset, truncated)

    def read(self, offset: int, size_max: int) -> bytes:
        """Return the batches from `offset` on: at most `size_max` bytes, but at least one batch.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        found = self._log.read(offset, size_max, self._log.log_end_offset)
        if found is None:
            return b""
        part = found.records
        return self._file_system.pread(part.descriptor, part.length, part.position)

    def on_leader_epoch(self, epoch: int) -> None:
        """Begin a leader epoch at the end of the log: this node leads from now on."""
        self.times.on_new_epoch()
        self._log.on_leader_epoch(epoch)

    def batches(self, offset: int) -> Iterator[RecordBatch]:
        """The batches from `offset` to the end of the log.

        Raises:
            LogDamaged: a batch cannot be read.
            LogDirectoryOffline: the disk failed.
        """
        end = self._log.log_end_offset
        while offset < end:
            found = self._log.read(offset, _READ_SIZE, end)
            assert found is not None
            data = self._file_system.pread(
                found.records.descriptor, found.records.length, found.records.position
            )
            begin = offset
            for batch in iterate_batches(data):
                if batch.base_offset >= offset:
                    yield batch
                offset = batch.next_offset
            if offset == begin:
                missing = DamagedFile(f"the batch at offset {offset} is missing or incomplete")
                raise self._log.partition_directory.unreadable(missing)

    def flush_work(self) -> FlushWork | None:
        """Return the work that makes the log durable: `run` in a thread, then `complete`."""
        return self._log.flush_work()

    def set_high_watermark(self, offset: int) -> None:
        """Set the high watermark: all records below `offset` are committed."""
        self._log.high_watermark = offset
        self.times.on_committed(offset, self._storage.clock.monotonic_ms())

    def failed(self, error: OSError) -> Exception:
        """Process a failed flush; return the exception to raise."""
        return self._log.partition_directory.fail("flush", error)

    def close(self) -> None:
        """Flush and close the files.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        self._log.close()

    # -- the quorum -----------------------------------------------------------------------------

    def read_election(self) -> ElectionState:
        """Return the voter's election state.

        Raises:
            DamagedFile: the file cannot be read.
            OSError: the disk failed.
        """
        return read_election(self._file_system, f"{self.path}/{QUORUM_STATE}")

    def write_election(self, election: ElectionState, kraft_version: int, voters: VoterSet) -> None:
        """Write the election state. The state survives a crash when this method returns.

        Raises:
            OSError: the disk failed.
        """
        path = f"{self.path}/{QUORUM_STATE}"
        write_election(self._file_system, path, election, kraft_version, voters)

    # -- snapshots ------------------------------------------------------------------------------

    def read_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        """Return the content of a snapshot.

        Raises:
            DamagedFile: the snapshot is damaged.
            OSError: the snapshot cannot be read.
        """
        return read_snapshot(self._file_system, f"{self.path}/{snapshot_id.name}")

    def write_snapshot(self, snapshot_id: SnapshotId, batches: Iterable[bytearray]) -> None:
        """Write a snapshot. May run in another thread. Call `add_snapshot` after that.

        Raises:
            OSError: the disk failed or is full; there is no new snapshot.
        """
        path = f"{self.path}/{snapshot_id.name}"
        write_snapshot(self._file_system, path, batches, self.path)

    def read_snapshot_part(
        self, snapshot_id: SnapshotId, position: int, size_max: int
    ) -> SnapshotPart:
        """Return a part of a snapshot's file; may run in another thread.

        Raises:
            FileNotFoundError: the snapshot no longer exists.
            OSError: the file cannot be read.
        """
        files = self._file_system
        descriptor = files.open(f"{self.path}/{snapshot_id.name}", READ_ONLY)
        try:
            size = files.size(descriptor)
            length = max(0, min(size_max, size - position))
            return SnapshotPart(size, files.pread(descriptor, length, position))
        finally:
            files.close(descriptor)

    def write_snapshot_part(
        self, snapshot_id: SnapshotId, position: int, data: bytes, is_last: bool
    ) -> Snapshot | None:
        """Write a part of a snapshot from the leader; may run in another thread.

        If it is the last part, the file is renamed to its final name, and the content of the
        snapshot is returned. Call `install` after that.

        Raises:
            DamagedFile: the snapshot is damaged and has been removed.
            OSError: the disk failed or is full.
        """
        files, path = self._file_system, f"{self.path}/{snapshot_id.name}"
        partial = partial_name(path)
        descriptor = files.open(partial, CREATE if position else CREATE_EMPTY)
        try:
            write_fully(files, descriptor, data, position)
            if is_last:
                files.fsync(descriptor)
        finally:
            files.close(descriptor)
        if not is_last:
            return None
        try:
            content = read_snapshot(files, partial)
        except DamagedFile:
            files.remove(partial)
            raise
        files.rename(partial, path)
        files.sync_directory(self.path)
        return content

    def install(self, snapshot_id: SnapshotId, truncated: Truncated) -> None:
        """Replace the log with a snapshot that was fetched, and remove older snapshots.

        `truncated` is called when a crash cannot undo this.

        Raises:
            OSError, LogDirectoryOffline: the disk failed.
        """
        log.info("%s: the snapshot %s replaces the log", self.path, snapshot_id.name)
        self.add_snapshot(snapshot_id)
        self._log.truncate_fully_and_start_at(snapshot_id.offset, truncated=truncated)
        self._remove(each for each in self.snapshots if each != snapshot_id)

    def add_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Register a snapshot that was written."""
        self.snapshots = sorted({*self.snapshots, snapshot_id})

    def delete_before(self, snapshot_id: SnapshotId) -> None:
        """Delete the older snapshots, and the segments that are entirely below the snapshot.

        Raises:
            OSError: the disk failed.
            LogDirectoryOffline: the disk failed.
        """
        if snapshot_id.offset > self._log.log_start_offset:
            self._log.delete_records_before(snapshot_id.offset)
            self._log.delete_old_segments()
        self._remove(each for each in self.snapshots if each < snapshot_id)

    def _remove(self, snapshots: Iterable[SnapshotId]) -> None:
        for old in list(snapshots):
            self._file_system.remove(f"{self.path}/{old.name}")
            self.snapshots.remove(old)

    def clean(self, now_ms: int, retention_bytes: int, retention_ms: int) -> None:
        """Delete snapshots beyond the retention limits, and the log segments that the next snapshot
        covers.

        The newest snapshot and the log after the oldest kept snapshot are always kept.

        Raises:
            OSError: the disk failed.
            LogDirectoryOffline: the disk failed.
        """
        while len(self.snapshots) > 1:
            status = [self._file_system.status(f"{self.path}/{s.name}") for s in self.snapshots]
            total = self.size + sum(each.size for each in status if each is not None)
            oldest = status[0]
            age_ms = now_ms - oldest.modified_ms if oldest is not None else 0
            is_too_old = retention_ms >= 0 and age_ms > retention_ms
            is_too_much = retention_bytes >= 0 and total > retention_bytes
            if not is_too_old and not is_too_much:
                return
            self.delete_before(self.snapshots[1])


class BatchTooLarge(Exception):
    """Records that do not fit into one batch of the metadata log."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes are more than the {BATCH_SIZE_MAX} of one batch")


def _log_config(config: BrokerConfig) -> TopicConfig:
    overrides = {
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "segment.bytes": str(config.metadata_log_segment_bytes),
        "segment.ms": str(config.metadata_log_segment_ms),
        "max.message.bytes": str(BATCH_SIZE_MAX),
    }
    return config.topic_config(overrides)


def replay_settings(settings: QuorumSettings, batch: RecordBatch) -> None:
    """Apply the control records of a batch.

    Raises:
        InvalidRecords: the batch cannot be read.
        MalformedMessage: a record does not match the type in its key.
    """
    for kind, message in control_messages(batch):
        settings.replay(kind, message, batch.base_offset)
