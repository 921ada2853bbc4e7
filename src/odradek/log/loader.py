"""Loads a log from the files in its directory, and recovers it if necessary.

1. Files that wait for their deletion (`.deleted`) and incomplete replacements (`.cleaned`) are
   removed. A complete replacement (`.swap`) replaces the segments that it covers.
2. Segments are listed. If a segment has no offset index or no time index, this segment and all
   later segments are recovered.
3. After an unclean shutdown, the segments from the recovery point on are recovered (`recovery`). If
   recovery cuts a segment, all later segments are removed.
4. The leader epochs are truncated to the log end offset.
5. The producers' state is rebuilt from the newest snapshot and the batches after it.

One thread loads a log. Several threads may load different logs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from odradek.config.topic_config import TopicConfig
from odradek.env.file_system import FileSystem
from odradek.log import names
from odradek.log.checkpoints import read_leader_epochs
from odradek.log.errors import DamagedFile
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log_segments import LogSegments
from odradek.log.partition_directory import PartitionDirectory
from odradek.log.producer_state_manager import ProducerStateManager
from odradek.log.recovery import recover_segment
from odradek.log.roll_policy import RollPolicy
from odradek.log.segment import Segment

logger = logging.getLogger("odradek.log")

_SNAPSHOT_OF_QUORUM = ".checkpoint"


class LoadedLog:
    """The parts from which a `PartitionLog` is made."""

    __slots__ = (
        "index_recovery_point",
        "leader_epochs",
        "log_end_offset",
        "producers",
        "recovered_segments",
        "recovery_point",
        "segments",
    )

    def __init__(
        self,
        segments: LogSegments,
        leader_epochs: LeaderEpochs,
        producers: ProducerStateManager,
        *,
        log_end_offset: int,
        recovery_point: int,
        index_recovery_point: int,
        recovered_segments: int = 0,
    ) -> None:
        self.segments = segments
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.index_recovery_point = index_recovery_point
        self.recovered_segments = recovered_segments


def create(directory: PartitionDirectory, config: TopicConfig) -> LoadedLog:
    """Create an empty log in a new directory.

    Raises:
        OSError: the device failed.
    """
    storage, path = directory.storage, directory.path
    storage.file_system.make_directory(path)
    directory.on_created()
    segment = Segment.create(storage, path, 0, RollPolicy(config))
    return LoadedLog(
        LogSegments(directory, [segment], 0),
        LeaderEpochs(),
        ProducerStateManager(directory, [], 0),
        log_end_offset=0,
        recovery_point=0,
        index_recovery_point=0,
    )


def load(
    directory: PartitionDirectory,
    config: TopicConfig,
    *,
    recovery_point: int,
    log_start_offset: int,
    was_clean: bool,
) -> LoadedLog:
    """Load the log in a directory.

    `recovery_point` and `log_start_offset` are the values in the checkpoint files.

    Raises:
        DamagedFile: the shutdown was clean, but the end of the log cannot be determined.
        OSError: the device failed.
    """
    return _Loader(directory, config).load(recovery_point, log_start_offset, was_clean)


class _Loader:
    def __init__(self, directory: PartitionDirectory, config: TopicConfig) -> None:
        self.directory = directory
        self.storage = directory.storage
        self.file_system: FileSystem = directory.storage.file_system
        self.path = directory.path
        self.config = config
        self.names: set[str] = set()
        self.producers = ProducerStateManager(directory, [], 0)
        self.epochs = LeaderEpochs()
        self.recovered = 0

    def load(self, recovery_point: int, log_start_offset: int, was_clean: bool) -> LoadedLog:
        self.names = {
            entry.name for entry in self.file_system.scan(self.path) if not entry.is_directory
        }
        self.clear_away()
        self.epochs = self.read_epochs()
        segments = self.list_segments()
        snapshots = self.list_snapshots(segments)
        self.producers = ProducerStateManager(self.directory, snapshots, log_start_offset)
        first = self.first_broken(segments)
        if not was_clean:
            first = min(first, max(0, _segment_of(segments, recovery_point)))
        end: int | None = None
        if first < len(segments):
            end = self.recover(segments, first, log_start_offset)
        has_producers = end is not None
        if segments and end is None:
            end = segments[-1].next_offset()
            segments[-1].forget_indexes()
        if end is not None and end < log_start_offset:
            self.drop_all(segments, end, log_start_offset)
            end, has_producers = None, False
        if not segments:
            policy = RollPolicy(self.config)
            segments.append(Segment.create(self.storage, self.path, log_start_offset, policy))
            # The checkpoint of log start offsets does not list a log that starts with its first
            # segment. Without the segment's file, the log would start at 0 after a power loss.
            self.file_system.sync_directory(self.path)
        if end is None:
            end = log_start_offset
        start = max(log_start_offset, segments[0].base_offset)
        self.epochs.truncate_from_end(end)
        self.epochs.truncate_from_start(log_start_offset)
        self.fill_epochs(segments, start)
        if not has_producers:
            self.load_producers(segments, start, end, was_clean)
        elif end > start:
            self.producers.take_snapshot(end)
        unflushed = min(first, len(segments) - 1) if self.recovered else -1
        return LoadedLog(
            LogSegments(self.directory, segments, start),
            self.epochs,
            self.producers,
            log_end_offset=end,
            recovery_point=end if was_clean and not self.recovered else min(recovery_point, end),
            index_recovery_point=segments[unflushed].base_offset,
            recovered_segments=self.recovered,
        )

    # -- cleanup after a crash -----------------------------------------------------------------

    def clear_away(self) -> None:
        cleaned = [name for name in sorted(self.names) if name.endswith(names.CLEANED)]
        swaps = [name for name in sorted(self.names) if name.endswith(names.SWAP)]
        if cleaned or swaps:
            first_cleaned = min((_offset(name) for name in cleaned), default=2**63)
            unfinished = [name for name in swaps if _offset(name) >= first_cleaned]
            for name in (*cleaned, *unfinished):
                self.remove(name)
            self.finish_swap([name for name in swaps if name not in unfinished])
        for name in sorted(self.names):
            if name.endswith(names.DELETED) and _SNAPSHOT_OF_QUORUM not in name:
                self.remove(name)

    def finish_swap(self, swaps: Sequence[str]) -> None:
        """Complete the replacements that a crash interrupted."""
        bounds = []
        for name in swaps:
            if name.endswith(names.LOG + names.SWAP):
                segment = Segment(
                    self.storage,
                    self.path,
                    _offset(name),
                    self.file_size(name),
                    suffix=names.SWAP,
                )
                bounds.append((segment.base_offset, segment.next_offset()))
                segment.close_file()
        if bounds:
            low, high = min(bounds)[0], max(end for _, end in bounds)
            for name in sorted(self.names):
                offset = names.offset_of(name)
                if offset is not None and low <= offset < high and not name.endswith(names.SWAP):
                    logger.info("%s/%s was compacted: it is removed", self.path, name)
                    self.remove(name)
        for name in sorted(swaps):
            target = name.removesuffix(names.SWAP)
            self.file_system.rename(f"{self.path}/{name}", f"{self.path}/{target}")
            self.names.discard(name)
            self.names.add(target)

    def remove(self, name: str) -> None:
        self.file_system.remove(f"{self.path}/{name}")
        self.names.discard(name)

    def drop_all(self, segments: list[Segment], end: int, start: int) -> None:
        logger.warning(
            "%s ends at offset %d, before its start %d: files are missing; the rest is removed",
            self.path,
            end,
            start,
        )
        self.drop(segments, 0)
        self.producers.drop_snapshots_above(-1)
        self.epochs.clear()

    # -- segments -----------------------------------------------------------------------------

    def list_segments(self) -> list[Segment]:
        bases = set()
        for name in self.names:
            if name.endswith(names.LOG) and names.offset_of(name) is not None:
                bases.add(_offset(name))
        for name in sorted(self.names):
            offset = names.offset_of(name)
            kind = name[20:]
            if offset is not None and kind in names.SEGMENT_KINDS and offset not in bases:
                logger.warning("%s/%s has no segment: it is removed", self.path, name)
                self.remove(name)
        segments = []
        for base in sorted(bases):
            size = self.file_size(names.file_name(base, names.LOG))
            has_aborted = names.file_name(base, names.TRANSACTION_INDEX) in self.names
            segments.append(Segment(self.storage, self.path, base, size, has_aborted=has_aborted))
        return segments

    def file_size(self, name: str) -> int:
        status = self.file_system.status(f"{self.path}/{name}")
        return 0 if status is None else status.size

    def first_broken(self, segments: list[Segment]) -> int:
        """Return the position in the list of the first segment that lacks an index.

        If all segments have their indexes, return the length of the list.
        """
        for number, segment in enumerate(segments):
            for kind in (names.OFFSET_INDEX, names.TIME_INDEX):
                if names.file_name(segment.base_offset, kind) not in self.names:
                    logger.warning("%s has no %s: it is rebuilt", segment.path(names.LOG), kind)
                    return number
        return len(segments)

    def recover(self, segments: list[Segment], first: int, log_start_offset: int) -> int:
        """Recover the segments from number `first` on. Return the log end offset."""
        start = segments[first].base_offset
        # Snapshots in the recovered range may be incomplete.
        self.producers.drop_snapshots_above(start)
        offset = self.producers.load_newest_snapshot(log_start_offset)
        for segment in segments[max(0, _segment_of(segments, offset)) : first]:
            self.replay(segment, max(offset, log_start_offset), start)
        end = start
        for number, segment in list(enumerate(segments))[first:]:
            self.recovered += 1
            result = recover_segment(
                segment,
                segment.size,
                self.producers,
                self.epochs,
                self.config.index_interval_bytes,
                before_cut=partial(self.drop, segments, number + 1),
            )
            end = result.next_offset
            segment.close_file()
            if result.cut_bytes:
                break
        return end

    def replay(self, segment: Segment, start: int, end: int) -> None:
        try:
            self.producers.replay_segment(segment, start, end)
        except DamagedFile as error:
            # The segment is below the recovery point, so a crash cannot be the cause of the damage.
            logger.error("cannot read the producers of %s: %s", self.path, error)

    def drop(self, segments: list[Segment], first: int) -> None:
        """Remove the segments from number `first` on, durably.

        The newest segment is removed first, so that a crash leaves no gap in the log.
        """
        if first >= len(segments):
            return
        for segment in reversed(segments[first:]):
            logger.warning("%s is after a truncation: it is removed", segment.path(names.LOG))
            segment.close_file()
            for kind in names.SEGMENT_KINDS:
                name = names.file_name(segment.base_offset, kind)
                if name in self.names:
                    self.remove(name)
        self.file_system.sync_directory(self.path)
        del segments[first:]

    # -- epochs and producers -----------------------------------------------------------------

    def read_epochs(self) -> LeaderEpochs:
        if names.LEADER_EPOCH_CHECKPOINT not in self.names:
            return LeaderEpochs()
        path = f"{self.path}/{names.LEADER_EPOCH_CHECKPOINT}"
        try:
            return LeaderEpochs(read_leader_epochs(self.file_system, path))
        except DamagedFile as error:
            logger.error("cannot read the leader epochs: %s", error)
            return LeaderEpochs()

    def fill_epochs(self, segments: list[Segment], start: int) -> None:
        """Add the epochs of records that were deleted, if a crash has restored the records."""
        known = self.epochs.entries
        if not known or known[0][1] <= start:
            return
        filled = LeaderEpochs()
        for segment in segments[max(0, _segment_of(segments, start)) :]:
            for batch in segment.batches(segment.position_before(start)):
                if batch.base_offset >= known[0][1]:
                    break
                if batch.last_offset >= start and batch.leader_epoch > filled.latest:
                    filled.assign(batch.leader_epoch, max(start, batch.base_offset))
        for epoch, offset in known:
            if epoch > filled.latest:
                filled.assign(epoch, offset)
        self.epochs = filled

    def list_snapshots(self, segments: list[Segment]) -> list[int]:
        """List the producer snapshots at the base offsets of segments, and the newest snapshot.

        Remove the other snapshots.
        """
        offsets = sorted(
            _offset(name) for name in self.names if name.endswith(names.PRODUCER_SNAPSHOT)
        )
        bases = {segment.base_offset for segment in segments}
        kept = []
        for offset in offsets:
            if offset in bases or offset == offsets[-1]:
                kept.append(offset)
            else:
                self.remove(names.file_name(offset, names.PRODUCER_SNAPSHOT))
        return kept

    def load_producers(
        self, segments: list[Segment], start: int, end: int, was_clean: bool
    ) -> None:
        producers = self.producers
        producers.drop_snapshots_above(end)
        offset = producers.load_newest_snapshot(start)
        # A clean shutdown writes a snapshot, except in old versions without producer state.
        if offset < end and (producers.snapshots or not was_clean):
            for segment in segments[max(0, _segment_of(segments, offset)) :]:
                self.replay(segment, max(offset, start), end)


def _segment_of(segments: list[Segment], offset: int) -> int:
    """Return the number of the segment that may have the offset; -1 if all segments are later."""
    found = -1
    for number, segment in enumerate(segments):
        if segment.base_offset > offset:
            break
        found = number
    return found


def _offset(name: str) -> int:
    offset = names.offset_of(name)
    if offset is None:
        raise DamagedFile(f"{name} is not named by an offset")
    return offset
