"""The producers of one log, and their snapshots on disk (`ProducerStateManager` in Apache Kafka).

The state is written to a `.snapshot` file when the log rolls and when the log is closed. When the
log is loaded or truncated, the state is rebuilt from the newest snapshot that is not above the log
end offset, and from the batches after this snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from odradek.env.file_system import CREATE_EMPTY, read_file, write_fully
from odradek.log import names
from odradek.log.errors import DamagedFile
from odradek.log.partition_directory import PartitionDirectory
from odradek.log.producer_snapshot import read_snapshot, snapshot_content
from odradek.log.producer_state import ProducerState
from odradek.log.scan import read_batch
from odradek.log.segment import Segment
from odradek.records.batch import RecordBatch
from odradek.records.errors import RecordsError

logger = logging.getLogger("odradek.log")


class ProducerStateManager(ProducerState):
    """The producers of one log. `snapshots` are the offsets of the snapshots on disk, ascending."""

    __slots__ = ("_directory", "snapshot_offset", "snapshots")

    def __init__(self, directory: PartitionDirectory, snapshots: list[int], offset: int) -> None:
        super().__init__()
        self._directory = directory
        self.snapshots = snapshots
        self.snapshot_offset = offset
        """The highest offset at which the state is on disk or empty."""

    # -- snapshots ------------------------------------------------------------------------------

    def snapshot_path(self, offset: int) -> str:
        """Return the path of the snapshot at an offset."""
        return self._directory.file(names.file_name(offset, names.PRODUCER_SNAPSHOT))

    def take_snapshot(self, offset: int) -> None:
        """Write a snapshot of the producers at `offset`, unless there is a snapshot already.

        The next flush of the log flushes the file.

        Raises:
            OSError: the device failed.
        """
        if offset <= self.snapshot_offset:
            return
        file_system = self._directory.storage.file_system
        content = snapshot_content(self.entries.values())
        descriptor = file_system.open(self.snapshot_path(offset), CREATE_EMPTY)
        try:
            write_fully(file_system, descriptor, content, 0)
        finally:
            file_system.close(descriptor)
        assert not self.snapshots or self.snapshots[-1] <= offset, "the newest snapshot is last"
        if not self.snapshots or self.snapshots[-1] < offset:
            self.snapshots.append(offset)
        self.snapshot_offset = offset
        self._directory.on_names_changed()

    def remove_snapshots(self, offsets: Iterable[int], delay_ms: int) -> None:
        """Remove the snapshots at these offsets after `delay_ms`.

        Raises:
            OSError: the device failed.
        """
        present = [offset for offset in offsets if offset in self.snapshots]
        if not present:
            return
        file_system = self._directory.storage.file_system
        paths = []
        for offset in present:
            self.snapshots.remove(offset)
            source = self.snapshot_path(offset)
            file_system.rename(source, source + names.DELETED)
            paths.append(source + names.DELETED)
        self._directory.remove_later(paths, delay_ms)
        self._directory.on_names_changed()

    def drop_snapshots_above(self, offset: int) -> None:
        """Remove the snapshots above an offset immediately. Used while the log is loaded.

        Raises:
            OSError: the device failed.
        """
        while self.snapshots and self.snapshots[-1] > offset:
            path = self.snapshot_path(self.snapshots.pop())
            self._directory.storage.file_system.remove(path)

    # -- loading --------------------------------------------------------------------------------

    def restart_at(self, offset: int) -> None:
        """Remove all producers. The state at `offset` is empty."""
        self.clear()
        self.snapshot_offset = offset

    def load_newest_snapshot(self, floor: int) -> int:
        """Load the newest readable snapshot and return its offset.

        Damaged snapshots are removed. If there is no snapshot, the state is empty at `floor`, which
        is the log start offset.

        Raises:
            OSError: the device failed.
        """
        file_system = self._directory.storage.file_system
        self.restart_at(floor)
        while self.snapshots:
            path = self.snapshot_path(self.snapshots[-1])
            try:
                for entry in read_snapshot(path, read_file(file_system, path)):
                    self.add_entry(entry)
                self.snapshot_offset = self.snapshots[-1]
                return self.snapshot_offset
            except FileNotFoundError:
                self.snapshots.pop()
            except DamagedFile as error:
                logger.warning("ignored a snapshot of producers: %s", error)
                file_system.remove(path)
                self.snapshots.pop()
        return floor

    def replay_segment(self, segment: Segment, start_offset: int, end_offset: int) -> None:
        """Apply the batches of a segment from `start_offset` to `end_offset` (exclusive).

        Raises:
            DamagedFile: a batch is damaged.
            OSError: the device failed.
        """
        file_system = self._directory.storage.file_system
        for place in segment.batches(segment.position_before(start_offset)):
            if place.last_offset < start_offset:
                continue
            if place.base_offset >= end_offset:
                return
            batch = read_batch(file_system, segment.opened(), place)
            if isinstance(batch, RecordBatch) and batch.has_producer_id:
                try:
                    self.replay(batch)
                except RecordsError as error:
                    raise DamagedFile(f"at byte {place.position} of {segment!r}: {error}") from None

    def truncate_and_reload(
        self, segments: Sequence[Segment], log_start_offset: int, log_end_offset: int, delay_ms: int
    ) -> None:
        """Rebuild the state at `log_end_offset`, where the log was truncated.

        `segments` are all segments of the log.

        Raises:
            DamagedFile: a batch is damaged.
            OSError: the device failed.
        """
        if not self.entries and not self.snapshots:
            self.restart_at(log_start_offset)
            return
        beyond = [offset for offset in self.snapshots if offset > log_end_offset]
        self.remove_snapshots(beyond, delay_ms)
        start = max(self.load_newest_snapshot(log_start_offset), log_start_offset)
        last = len(segments) - 1
        for number, segment in enumerate(segments):
            if number == last or segments[number + 1].base_offset > start:
                self.replay_segment(segment, start, log_end_offset)
