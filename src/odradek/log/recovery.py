"""Recovers a segment after a crash. Truncates an invalid end and rebuilds the indexes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

from odradek.log import names
from odradek.log.errors import DamagedFile
from odradek.log.index import OffsetIndex, TimeIndex
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.producer_state_manager import ProducerStateManager
from odradek.log.segment import OFFSET_DELTA_MAX, Segment
from odradek.log.sequential_reader import SequentialReader
from odradek.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    HEADER_SIZE,
    LEGACY_SIZE_MIN,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    RECORD_BATCH_HEADER,
    SEQUENCE_MAX,
    SIZE,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from odradek.records.checksum import crc32c
from odradek.records.errors import RecordsError
from odradek.records.legacy import LegacyMessage
from odradek.records.segment_files import AbortedTransaction

_PIECE = 1 << 20
"""Number of bytes per read. A larger batch is read alone."""
_MARKED = TRANSACTIONAL_FLAG | CONTROL_FLAG
_unpack_header = RECORD_BATCH_HEADER.unpack_from

logger = logging.getLogger("odradek.log")


class Recovered(NamedTuple):
    """The log end offset after a segment, and the number of bytes that were cut off."""

    next_offset: int
    cut_bytes: int


_Valid = tuple[int, int, int, int, int, int, int, int, int]
"""A valid batch: size, base offset, last offset, leader epoch, max timestamp, attributes, producer
id, producer epoch, first sequence number. A plain tuple is used because there may be millions of
batches, and a named tuple takes three times as long to create."""


def recover_segment(
    segment: Segment,
    file_size: int,
    producers: ProducerStateManager,
    leader_epochs: LeaderEpochs,
    index_interval_bytes: int,
    before_cut: Callable[[], None],
) -> Recovered:
    """Read all batches, and truncate the file at the first incomplete or invalid batch.

    `producers` has the state at the start of the segment, and is updated to the state at its end.
    Unknown epochs are added to `leader_epochs`. `before_cut` is called before the file is
    truncated.

    Raises:
        OSError: the device failed.
    """
    offsets, times = segment.begin_recovery()
    file_system = segment.storage.file_system
    file = segment.opened()
    path = segment.path(names.LOG)
    with closing(SequentialReader(file_system, path, file.descriptor, file_size)) as reader:
        walker = _Walker(segment, reader, file_size, offsets, times)
        try:
            walker.replay_all(producers, leader_epochs, index_interval_bytes)
        except (DamagedFile, RecordsError) as error:
            logger.error("%s: %s", path, error)
    cut = file_size - walker.position
    if cut:
        logger.warning(
            "%s: truncated %d bytes from byte %d on; the log continues at offset %d",
            path,
            cut,
            walker.position,
            walker.next_offset,
        )
        before_cut()
        file_system.truncate(file.descriptor, walker.position)
        # Otherwise, after another crash, truncated bytes could follow newly appended batches.
        file_system.fdatasync(file.descriptor)
    segment.end_recovery(walker.position, walker.max_timestamp, walker.max_timestamp_offset)
    return Recovered(walker.next_offset, cut)


def _out_of_order(walker: _Walker, batch: _Valid, leader_epoch: int) -> DamagedFile:
    """Return the error for a batch that cannot follow the previous one.

    After a truncation and further appends, a crash may restore truncated batches of the same sizes
    with valid checksums. Such batches are recognised by their older leader epoch.
    """
    _, base, last, epoch, *_ = batch
    position, next_offset = walker.position, walker.next_offset
    if epoch < leader_epoch:
        return DamagedFile(
            f"the batch at byte {position}, offset {base}, is of leader epoch "
            f"{epoch}, after {leader_epoch}"
        )
    if base < next_offset or last < base:
        return DamagedFile(
            f"the batch at byte {position} has the offsets {base} to {last}, after {next_offset - 1}"
        )
    return DamagedFile(
        f"the batch at byte {position} ends at offset {last}, too far from the "
        f"segment's base offset {walker.segment.base_offset}"
    )


def _replay(segment: Segment, producers: ProducerStateManager, batch: RecordBatch) -> None:
    ended = producers.replay(batch)
    if ended is not None and ended[0].aborted:
        completed, last_stable_offset = ended
        entry = AbortedTransaction(
            completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
        )
        segment.note_aborted(entry)


class _Walker:
    """Reads a file in pieces and yields its batches after verifying their checksums."""

    __slots__ = (
        "_data",
        "_end",
        "_offsets",
        "_reader",
        "_start",
        "_times",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "position",
        "segment",
    )

    def __init__(
        self,
        segment: Segment,
        reader: SequentialReader,
        end: int,
        offsets: OffsetIndex,
        times: TimeIndex,
    ) -> None:
        self.segment = segment
        self._reader = reader
        self._end = end
        self._offsets = offsets
        self._times = times
        self.max_timestamp = -1
        self.max_timestamp_offset = segment.base_offset
        self._data = memoryview(b"")
        self._start = 0  # file position of `_data`
        self.position = 0
        """Position of the first batch that was not replayed yet."""
        self.next_offset = segment.base_offset
        """The offset after the last replayed batch."""

    def replay_all(
        self, producers: ProducerStateManager, leader_epochs: LeaderEpochs, index_interval: int
    ) -> None:
        """Replay the batches in order. Afterwards, `position` is the end of the valid batches.

        Raises:
            DamagedFile, RecordsError: a batch is damaged, or cannot follow the previous one.
            OSError: the device failed.
        """
        entries = producers.entries
        offsets, times = self._offsets, self._times
        base_offset = self.segment.base_offset
        offset_max = base_offset + OFFSET_DELTA_MAX
        leader_epoch = last_timestamp = -1
        last_index_position = 0
        for batch in self.batches():
            size, base, last, epoch, timestamp, attributes, producer_id, producer_epoch, first = (
                batch
            )
            if epoch < leader_epoch or base < self.next_offset or not base <= last <= offset_max:
                raise _out_of_order(self, batch, leader_epoch)
            leader_epoch = epoch
            if producer_id >= 0:
                entry = entries.get(producer_id)
                if (
                    entry is not None
                    and entry.epoch == producer_epoch
                    and entry.transaction_first_offset < 0
                    and not attributes & _MARKED
                    and first >= 0
                ):  # this has the same result as `ProducerStateManager.replay`
                    last_sequence = (first + last - base) & SEQUENCE_MAX
                    entry.add_batch(producer_epoch, last_sequence, last, last - base, timestamp)
                else:
                    _replay(self.segment, producers, self.batch())
            if epoch > leader_epochs.latest:
                leader_epochs.assign(epoch, base)
            if timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
                self.max_timestamp_offset = last
            if self.position - last_index_position > index_interval:
                last_index_position = self.position
                offsets.append(last - base_offset, self.position)
                if self.max_timestamp > last_timestamp:
                    last_timestamp = self.max_timestamp
                    times.append(last_timestamp, self.max_timestamp_offset - base_offset)
            self.next_offset = last + 1
            self.position += size

    def batches(self) -> Iterator[_Valid]:
        """Yield the batches from `position` on, up to the first incomplete batch.

        Raises:
            DamagedFile: there is no batch, or its checksum is wrong.
            OSError: the device failed.
        """
        end = self._end
        while (left := end - (position := self.position)) >= LEGACY_SIZE_MIN:
            inner = position - self._start
            if inner + HEADER_SIZE > len(self._data):
                inner = self._have(min(HEADER_SIZE, left))
            size = SIZE.unpack_from(self._data, inner + LENGTH_POSITION)[0] + LOG_OVERHEAD
            if size < LEGACY_SIZE_MIN:
                raise DamagedFile(f"there is no batch at byte {position}")
            if size > left:
                return
            if inner + size > len(self._data):
                inner = self._have(size)
            if self._data[inner + MAGIC_POSITION] != MAGIC:
                yield self._legacy(inner, size)
                continue
            if size < HEADER_SIZE:
                raise DamagedFile(f"the batch at byte {position} has only {size} bytes")
            (
                base,
                _,
                epoch,
                _,
                crc,
                attributes,
                delta,
                _,
                timestamp,
                producer_id,
                producer_epoch,
                sequence,
                _,
            ) = _unpack_header(self._data, inner)
            if crc32c(self._data[inner + ATTRIBUTES_POSITION : inner + size]) != crc:
                raise DamagedFile(
                    f"the batch at byte {position}, offset {base}, has a wrong checksum"
                )
            yield (
                size,
                base,
                base + delta,
                epoch,
                timestamp,
                attributes,
                producer_id,
                producer_epoch,
                sequence,
            )

    def _legacy(self, inner: int, size: int) -> _Valid:
        message = LegacyMessage(self._data[inner : inner + size])
        last = message.last_offset
        if not message.is_valid:
            raise DamagedFile(
                f"the message at byte {self.position}, offset {last}, has a wrong checksum"
            )
        return size, last, last, -1, message.max_timestamp, 0, -1, -1, -1

    def batch(self) -> RecordBatch:
        """Return the batch that was yielded last."""
        return RecordBatch(self._data[self.position - self._start :])

    def _have(self, size: int) -> int:
        """Read at least `size` bytes from `position` on into `_data`. Return their index, 0."""
        length = min(max(_PIECE, size), self._end - self.position)
        self._data = self._reader.read(self.position, length)
        self._start = self.position
        if len(self._data) < size:
            raise DamagedFile(f"the file ends inside the batch at byte {self.position}")
        return 0
