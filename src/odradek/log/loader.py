"""Makes the parts of a log from the files in its directory; recovery lives here alone.

1. Files that a crash left on their way out (`.deleted`) or unfinished (`.cleaned`) are removed. A
   replacement that was whole (`.swap`) takes the place of the segments that it covers.
2. Segments are listed. One without its index is recovered.
3. After anything but a clean shutdown, segments from the recovery point on are recovered
   (`recovery`); once one had to be cut, those after it go.
4. The leader epochs are fitted to what is left, and the producers are found again, from the
   newest snapshot below and the batches after it.

A log is loaded by one thread; different logs may be loaded by different ones.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from odradek.config.topic_config import TopicConfig
from odradek.env.file_system import CREATE_EMPTY, FileSystem, write_fully
from odradek.log import names, snapshots
from odradek.log.checkpoints import read_leader_epochs
from odradek.log.errors import DamagedFile
from odradek.log.index import OffsetIndex, TimeIndex
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.producer_snapshot import snapshot_content
from odradek.log.producer_state import ProducerState
from odradek.log.producers_on_disk import load_newest_snapshot, replay_segment
from odradek.log.recovery import recover_segment
from odradek.log.segment import Segment, create_segment_file
from odradek.log.storage import Storage

logger = logging.getLogger("odradek.log")

_SNAPSHOT_OF_QUORUM = ".checkpoint"


class LoadedLog:
    """The parts of a log; `PartitionLog` is made from them."""

    __slots__ = (
        "is_new",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovered_segments",
        "recovery_point",
        "sealed_offset",
        "segments",
        "snapshot_offset",
        "snapshots",
    )

    def __init__(self, segments: list[Segment], log_start_offset: int, log_end_offset: int) -> None:
        self.segments = segments
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = log_end_offset
        self.sealed_offset = segments[-1].base_offset
        self.leader_epochs = LeaderEpochs()
        self.producers: ProducerState | None = None
        self.snapshots: list[int] = []
        self.snapshot_offset = log_start_offset
        self.is_new = False
        self.recovered_segments = 0


def create(storage: Storage, path: str, config: TopicConfig) -> LoadedLog:
    """An empty log in a new directory.

    Raises:
        OSError: the device failed.
    """
    storage.file_system.make_directory(path)
    loaded = LoadedLog([_create_segment(storage, path, 0, config)], 0, 0)
    loaded.is_new = True
    return loaded


def load(
    storage: Storage,
    path: str,
    config: TopicConfig,
    *,
    recovery_point: int,
    log_start_offset: int,
    was_clean: bool,
) -> LoadedLog:
    """The log in a directory; `recovery_point` and `log_start_offset` come from checkpoints.

    Raises:
        OSError: the device failed.
    """
    return _Loader(storage, path, config).load(recovery_point, log_start_offset, was_clean)


class _Loader:
    def __init__(self, storage: Storage, path: str, config: TopicConfig) -> None:
        self.storage = storage
        self.file_system: FileSystem = storage.file_system
        self.path = path
        self.config = config
        self.names: set[str] = set()
        self.producers: ProducerState | None = None
        self.epochs = LeaderEpochs()
        self.recovered = 0

    def load(self, recovery_point: int, log_start_offset: int, was_clean: bool) -> LoadedLog:
        self.names = {
            entry.name for entry in self.file_system.scan(self.path) if not entry.is_directory
        }
        self.clear_away()
        self.epochs = self.read_epochs()
        segments = self.list_segments()
        snapshot_offsets = self.list_snapshots(segments)
        broken = self.first_broken(segments)
        first = len(segments)
        if not was_clean:
            first = max(0, _segment_of(segments, recovery_point))
        first = min(first, broken)
        end: int | None = None
        if first < len(segments):
            end = self.recover(segments, first, log_start_offset, snapshot_offsets)
        if segments and end is None:
            end = segments[-1].next_offset()
            segments[-1].forget_indexes()
        if end is not None and end < log_start_offset:
            self.drop_all(segments, snapshot_offsets, end, log_start_offset)
            end = None
        if not segments:
            segments.append(_create_segment(self.storage, self.path, log_start_offset, self.config))
        if end is None:
            end = log_start_offset
        loaded = LoadedLog(segments, max(log_start_offset, segments[0].base_offset), end)
        loaded.recovery_point = (
            end if was_clean and not self.recovered else min(recovery_point, end)
        )
        loaded.recovered_segments = self.recovered
        if self.recovered:
            loaded.sealed_offset = segments[min(first, len(segments) - 1)].base_offset
        self.epochs.truncate_from_end(end)
        self.epochs.truncate_from_start(log_start_offset)
        self.fill_epochs(segments, loaded.log_start_offset)
        loaded.leader_epochs = self.epochs
        self.add_producers(loaded, snapshot_offsets, was_clean)
        return loaded

    # -- leftovers of a crash -----------------------------------------------------------------

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
        """Replacements take the place of what they cover, as they were about to."""
        bounds = []
        for name in swaps:
            if name.endswith(names.LOG + names.SWAP):
                segment = self.segment(_offset(name))
                segment.suffix = names.SWAP
                segment.size = self.file_size(name)
                bounds.append((segment.base_offset, segment.next_offset()))
                segment.close_file()
        if bounds:
            low, high = min(bounds)[0], max(end for _, end in bounds)
            for name in sorted(self.names):
                offset = names.offset_of(name)
                if offset is not None and low <= offset < high and not name.endswith(names.SWAP):
                    logger.info("%s/%s was compacted: it goes", self.path, name)
                    self.remove(name)
        for name in sorted(swaps):
            target = name.removesuffix(names.SWAP)
            self.file_system.rename(f"{self.path}/{name}", f"{self.path}/{target}")
            self.names.discard(name)
            self.names.add(target)

    def remove(self, name: str) -> None:
        self.file_system.remove(f"{self.path}/{name}")
        self.names.discard(name)

    def drop_all(
        self, segments: list[Segment], snapshot_offsets: list[int], end: int, start: int
    ) -> None:
        logger.warning(
            "%s ends at offset %d, before its start %d: files are missing; what is left of it goes",
            self.path,
            end,
            start,
        )
        self.drop(segments, 0)
        self.drop_snapshots(snapshot_offsets, -1)
        self.epochs.clear()
        self.producers = None

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
                logger.warning("%s/%s has no segment: it goes", self.path, name)
                self.remove(name)
        segments = []
        for base in sorted(bases):
            segment = self.segment(base)
            segment.size = self.file_size(names.file_name(base, names.LOG))
            if names.file_name(base, names.TRANSACTION_INDEX) not in self.names:
                segment.aborted = []
            segments.append(segment)
        return segments

    def segment(self, base_offset: int) -> Segment:
        return Segment(self.storage, self.path, base_offset, 0, self.storage.clock.now_ms())

    def file_size(self, name: str) -> int:
        status = self.file_system.status(f"{self.path}/{name}")
        return 0 if status is None else status.size

    def first_broken(self, segments: list[Segment]) -> int:
        """The first segment whose indexes are missing; after it all are recovered."""
        for number, segment in enumerate(segments):
            for kind in (names.OFFSET_INDEX, names.TIME_INDEX):
                if names.file_name(segment.base_offset, kind) not in self.names:
                    logger.warning("%s has no %s: it is made anew", segment.path(names.LOG), kind)
                    return number
        return len(segments)

    def recover(
        self,
        segments: list[Segment],
        first: int,
        log_start_offset: int,
        snapshot_offsets: list[int],
    ) -> int:
        """Recover the segments from `first` on; the log's end."""
        start = segments[first].base_offset
        self.drop_snapshots(snapshot_offsets, start)
        state, offset = load_newest_snapshot(
            self.file_system, self.path, snapshot_offsets, log_start_offset
        )
        for segment in segments[max(0, _segment_of(segments, offset)) : first]:
            self.replay(state, segment, max(offset, log_start_offset), start)
        end = start
        for number, segment in list(enumerate(segments))[first:]:
            self.recovered += 1
            result = recover_segment(
                segment,
                segment.size,
                state,
                self.epochs,
                self.config.index_interval_bytes,
                before_cut=partial(self.drop, segments, number + 1),
            )
            end = result.next_offset
            segment.close_file()
            if result.cut_bytes:
                break
        self.producers = state
        return end

    def replay(self, state: ProducerState, segment: Segment, start: int, end: int) -> None:
        try:
            replay_segment(state, segment, start, end)
        except DamagedFile as error:
            # It lies below the recovery point: it was whole once, and no crash did this.
            logger.error("producers of %s are not known: %s", self.path, error)

    def drop(self, segments: list[Segment], first: int) -> None:
        """Remove segments from the end of the log, for good, so that no crash leaves a gap."""
        if first >= len(segments):
            return
        for segment in reversed(segments[first:]):
            logger.warning("%s lies after a cut: it goes", segment.path(names.LOG))
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
            logger.error("leader epochs are not known: %s", error)
            return LeaderEpochs()

    def fill_epochs(self, segments: list[Segment], start: int) -> None:
        """Find the epochs of records that were deleted, until a crash brought them back."""
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
        """The producers' snapshots that belong to a segment, and the newest one."""
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

    def drop_snapshots(self, offsets: list[int], above: int) -> None:
        """Snapshots inside what is recovered are not to be trusted: taken, but perhaps not whole."""
        while offsets and offsets[-1] > above:
            self.remove(names.file_name(offsets.pop(), names.PRODUCER_SNAPSHOT))

    def add_producers(self, loaded: LoadedLog, offsets: list[int], was_clean: bool) -> None:
        end = loaded.log_end_offset
        state = self.producers
        if state is None:
            self.drop_snapshots(offsets, end)
            state, offset = load_newest_snapshot(
                self.file_system, self.path, offsets, loaded.log_start_offset
            )
            # A clean shutdown without any snapshot comes from a version that knew no producers.
            if offset < end and (offsets or not was_clean):
                for segment in loaded.segments[max(0, _segment_of(loaded.segments, offset)) :]:
                    self.replay(state, segment, max(offset, loaded.log_start_offset), end)
            loaded.snapshot_offset = offset
        elif end > loaded.log_start_offset:
            self.write_snapshot(state, end)
            if end not in offsets:
                offsets.append(end)
            loaded.snapshot_offset = end
        loaded.snapshots = offsets
        if state.entries:
            loaded.producers = state

    def write_snapshot(self, state: ProducerState, offset: int) -> None:
        path = snapshots.path_of(self.path, offset)
        descriptor = self.file_system.open(path, CREATE_EMPTY)
        try:
            content = snapshot_content(state.entries.values())
            write_fully(self.file_system, descriptor, content, 0)
        finally:
            self.file_system.close(descriptor)


def _create_segment(storage: Storage, path: str, base_offset: int, config: TopicConfig) -> Segment:
    segment = Segment(storage, path, base_offset, 0, storage.clock.now_ms())
    segment.max_timestamp = -1
    segment.offset_index = OffsetIndex()
    segment.time_index = TimeIndex()
    segment.aborted = []
    size = config.segment_bytes if config.preallocate else 0
    create_segment_file(storage.file_system, segment.path(names.LOG), size)
    segment.write_indexes()
    return segment


def _segment_of(segments: list[Segment], offset: int) -> int:
    """The index of the segment that may hold the offset; -1 if it is before all."""
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
