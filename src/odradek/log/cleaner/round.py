"""One round of cleaning over one log, in the worker.

1. The keys of the dirty part are added to the offset map, until the part ends or the map is full.
2. All segments up to the last offset in the map are copied, without the records that the rules
   remove. Each group of segments becomes one new segment. The worker reports each new segment when
   the segment is complete.

Only `.cleaned` files are changed. The node never writes to segments that may be cleaned. If the
node removes such segments, the work item becomes invalid, and its result is not used.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from odradek.env.file_system import FileSystem, read_file
from odradek.log import names
from odradek.log.cleaner.batch_filter import PAYLOAD_MAX, BatchFilter, LastBatch
from odradek.log.cleaner.cleaned_files import remove_cleaned
from odradek.log.cleaner.dict_offset_map import DictOffsetMap
from odradek.log.cleaner.grouping import SegmentSizes, group_segments
from odradek.log.cleaner.offset_map import OffsetMap
from odradek.log.cleaner.offset_table import OffsetTable
from odradek.log.cleaner.source import OnBytes, read_batches
from odradek.log.cleaner.target import CleanedSegment
from odradek.log.cleaner.transactions import Transactions
from odradek.log.cleaner.work import Replaced, WorkItem
from odradek.log.errors import DamagedFile
from odradek.log.index import OffsetIndex
from odradek.log.transaction_index import read_aborted
from odradek.records.batch import CODEC_MASK, RecordBatch
from odradek.records.compiled import COMPILED
from odradek.records.compression import decompress
from odradek.records.segment_files import AbortedTransaction


@dataclass(slots=True)
class Tally:
    """Counters of a round."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0

    def add_read(self, count: int) -> None:
        """Count bytes that were read."""
        self.bytes_read += count

    def add_written(self, count: int) -> None:
        """Count bytes that were written."""
        self.bytes_written += count

    def add_records(self, read: int, kept: int) -> None:
        """Count records that were filtered, and records that were kept."""
        self.records_read += read
        self.records_kept += kept


class Round:
    """One round over one log.

    `pause` is called with the number of bytes after each read and write. It may wait, and may raise
    an exception to stop the round.
    """

    new_map: type[OffsetTable | DictOffsetMap] = OffsetTable if COMPILED else DictOffsetMap

    def __init__(self, file_system: FileSystem, item: WorkItem, pause: OnBytes) -> None:
        self._file_system = file_system
        self.item = item
        self._pause = pause
        self._aborted = self._read_aborted()
        self.map: OffsetMap = self.new_map(
            item.first_dirty_offset, item.map_bytes, item.map_entries_max
        )
        self.tally = Tally()

    def run(self, replaced: Callable[[Replaced], None]) -> int:
        """Perform the round. Return the offset up to which the log is then clean.

        `replaced` is called for each new segment.

        Raises:
            DamagedFile: a segment contains an invalid batch.
            RecordsError: a batch contains an invalid record.
            OSError: the device failed.
        """
        item = self.item
        self._fill_map()
        self.map.finish()
        next_offset = self.map.latest_offset + 1
        if next_offset <= item.first_dirty_offset:
            raise DamagedFile("log.cleaner.dedupe.buffer.size is too small for a single key")
        segments = [self._sizes(*each) for each in item.segments if each[0] < next_offset]
        groups = group_segments(
            segments, item.segment_bytes, item.segment_index_bytes, item.end_offset
        )
        transactions = Transactions(self._aborted)
        rules = BatchFilter(
            self.map,
            transactions,
            {producer: LastBatch(offset, epoch) for producer, offset, epoch in item.producers},
            high_watermark=item.high_watermark,
            now_ms=item.now_ms,
            delete_retention_ms=item.delete_retention_ms,
        )
        for group in groups:
            size = self._copy(group, rules, transactions)
            replaced(Replaced(item.number, [segment.base_offset for segment in group], size))
        self.tally.add_records(rules.records_read, rules.records_kept)
        return next_offset

    # -- first pass ---------------------------------------------------------------------------

    def _fill_map(self) -> None:
        item = self.item
        start = item.first_dirty_offset
        transactions = Transactions(self.aborted_from(start))
        bases = [base for base, _ in item.segments]
        first = max(0, bisect_right(bases, start) - 1)
        for number in range(first, len(bases)):
            for batch in self._batches(*item.segments[number], from_offset=start):
                if not self._add(batch, transactions):
                    return
            is_last = number + 1 == len(bases)
            # Offsets may be missing at the end of a segment.
            self.map.advance_to((item.end_offset if is_last else bases[number + 1]) - 1)

    def aborted_from(self, offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that end at or after an offset.

        Reading begins at this offset. In contrast, Kafka also returns transactions that ended
        earlier in the same segment. If the markers of such transactions are not read again, later
        batches of the same producers count as aborted, and the keys of these batches are not added
        to the map. As a result, an old value of a key can stay in the log longer than the tombstone
        of the key.
        """
        return [each for each in self._aborted if each.last_offset >= offset]

    def _add(self, batch: RecordBatch, transactions: Transactions) -> bool:
        """Add a batch to the map. Return False if the map is full."""
        if batch.is_control:
            transactions.on_control(batch)
        elif transactions.on_data(batch):
            self.map.leave_out(batch)
            return True
        elif batch.count:
            if batch.attributes & CODEC_MASK:
                payload = decompress(batch.codec, batch.payload, PAYLOAD_MAX)
            else:
                payload = bytes(batch.payload)
            return self.map.add_batch(batch, payload)
        self.map.advance_to(batch.last_offset)
        return True

    # -- second pass --------------------------------------------------------------------------

    def _copy(
        self, group: list[SegmentSizes], rules: BatchFilter, transactions: Transactions
    ) -> int:
        """Write the segment that replaces a group. Return its size in bytes."""
        item = self.item
        base_offset = group[0].base_offset
        kept_before = len(transactions.retained)
        target = CleanedSegment(
            self._file_system,
            item.directory,
            base_offset,
            item.index_interval_bytes,
            self._on_write,
        )
        is_whole = False
        try:
            for segment in group:
                for batch in self._batches(segment.base_offset, segment.size):
                    kept = rules.filter(batch)
                    if kept is not None:
                        target.append(kept)
            size = target.finish(
                transactions.retained[kept_before:], self._modified_ms(group[-1].base_offset)
            )
            is_whole = True
            return size
        finally:
            target.close()
            if not is_whole:
                remove_cleaned(self._file_system, item.directory, base_offset)

    # -- files --------------------------------------------------------------------------------

    def _batches(
        self, base_offset: int, size: int, from_offset: int | None = None
    ) -> Iterator[RecordBatch]:
        """Yield the batches of a segment, all or from a position at or before `from_offset`."""
        position = 0
        if from_offset is not None and from_offset > base_offset:
            position = self._position_before(base_offset, size, from_offset)
        path = self._path(base_offset, names.LOG)
        return read_batches(
            self._file_system, path, position, size, self.item.buffer_bytes, self._on_read
        )

    def _position_before(self, base_offset: int, size: int, offset: int) -> int:
        data = read_file(self._file_system, self._path(base_offset, names.OFFSET_INDEX))
        step = OffsetIndex.ENTRY.size
        entries = range(0, len(data) - step + 1, step)
        found = bisect_right(
            entries, offset - base_offset, key=lambda at: OffsetIndex.ENTRY.unpack_from(data, at)[0]
        )
        if not found:
            return 0
        position: int = OffsetIndex.ENTRY.unpack_from(data, entries[found - 1])[1]
        return position if position < size else 0

    def _sizes(self, base_offset: int, size: int) -> SegmentSizes:
        return SegmentSizes(
            base_offset,
            size,
            self._file_size(base_offset, names.OFFSET_INDEX),
            self._file_size(base_offset, names.TIME_INDEX),
        )

    def _file_size(self, base_offset: int, kind: str) -> int:
        status = self._file_system.status(self._path(base_offset, kind))
        return 0 if status is None else status.size

    def _modified_ms(self, base_offset: int) -> int:
        status = self._file_system.status(self._path(base_offset, names.LOG))
        if status is None:
            raise DamagedFile(f"{self._path(base_offset, names.LOG)} has vanished")
        return status.modified_ms

    def _read_aborted(self) -> list[AbortedTransaction]:
        item = self.item
        found = []
        for base_offset in (*(base for base, _ in item.segments), *item.later_segments):
            path = self._path(base_offset, names.TRANSACTION_INDEX)
            found += read_aborted(self._file_system, path, base_offset)
        return [each for each in found if each.first_offset < item.end_offset]

    def _path(self, base_offset: int, kind: str) -> str:
        return f"{self.item.directory}/{names.file_name(base_offset, kind)}"

    def _on_read(self, count: int) -> None:
        self.tally.add_read(count)
        self._pause(count)

    def _on_write(self, count: int) -> None:
        self.tally.add_written(count)
        self._pause(count)
