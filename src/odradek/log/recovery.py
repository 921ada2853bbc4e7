"""Recovers a segment after a crash: cuts off a torn tail and makes its indexes anew."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from odradek.log import names
from odradek.log.errors import DamagedFile
from odradek.log.index import OffsetIndex, TimeIndex
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.producer_state import ProducerState
from odradek.log.segment import OFFSET_DELTA_MAX, Segment
from odradek.log.transaction_index import (
    AbortedTransaction,
    append_aborted,
    truncate_aborted,
)
from odradek.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    LEGACY_SIZE_MIN,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    RECORD_BATCH_HEADER,
    SIZE,
    RecordBatch,
)
from odradek.records.checksum import crc32c
from odradek.records.errors import RecordsError
from odradek.records.legacy import LegacyMessage

_PIECE = 4 << 20
"""Bytes read at a time; a batch that is larger is read alone."""

logger = logging.getLogger("odradek.log")


class Recovered(NamedTuple):
    """What is left of a segment."""

    next_offset: int
    cut_bytes: int


class _Valid(NamedTuple):
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int
    producer_id: int


def recover_segment(
    segment: Segment,
    file_size: int,
    producers: ProducerState,
    leader_epochs: LeaderEpochs,
    index_interval_bytes: int,
    before_cut: Callable[[], None],
) -> Recovered:
    """Go through all batches; keep those up to the first one that is not whole or not valid.

    `producers` is the state at the segment's start and is brought to its end; `leader_epochs`
    learns of epochs that it did not know. `before_cut` is called before the file is shortened.

    Raises:
        OSError: the device failed.
    """
    segment.size = file_size
    _reset(segment)
    walker = _Walker(segment, file_size)
    next_offset = segment.base_offset
    leader_epoch = -1
    last_index_position = 0
    try:
        while (batch := walker.next_batch()) is not None:
            _check_order(segment, batch, next_offset, leader_epoch, walker.position)
            leader_epoch = batch.leader_epoch
            if batch.producer_id >= 0:
                _replay(segment, producers, walker.batch())
            if batch.leader_epoch > leader_epochs.latest:
                leader_epochs.assign(batch.leader_epoch, batch.base_offset)
            if batch.max_timestamp > segment.max_timestamp:
                segment.max_timestamp = batch.max_timestamp
                segment.max_timestamp_offset = batch.last_offset
            if walker.position - last_index_position > index_interval_bytes:
                segment.add_index_entries(batch.last_offset, walker.position, 1 << 30)
                last_index_position = walker.position
            next_offset = batch.last_offset + 1
            walker.position += batch.size
    except (DamagedFile, RecordsError) as error:
        logger.error("%s: %s", segment.path(names.LOG), error)
    cut = file_size - walker.position
    if cut:
        logger.warning(
            "%s: cut off %d bytes from byte %d on; the log goes on at offset %d",
            segment.path(names.LOG),
            cut,
            walker.position,
            next_offset,
        )
        before_cut()
        file = segment.file or segment.open_file()
        file_system = segment.storage.file_system
        file_system.truncate(file.descriptor, walker.position)
        # Else another crash could put what is appended next together with what was cut off.
        file_system.fdatasync(file.descriptor)
    segment.size = walker.position
    segment.finish_indexes()
    return Recovered(next_offset, cut)


def _reset(segment: Segment) -> None:
    """Empty indexes, on disk too."""
    file_system = segment.storage.file_system
    segment.offset_index = OffsetIndex(1)
    segment.time_index = TimeIndex(1)
    segment.offset_index.truncate(file_system, segment.path(names.OFFSET_INDEX), 0)
    segment.time_index.truncate(file_system, segment.path(names.TIME_INDEX), 0)
    truncate_aborted(file_system, segment.path(names.TRANSACTION_INDEX), 0)
    segment.aborted = None
    segment.max_timestamp = -1
    segment.max_timestamp_offset = segment.base_offset


def _check_order(
    segment: Segment, batch: _Valid, next_offset: int, leader_epoch: int, position: int
) -> None:
    """Refuse what does not follow from the batch before it.

    Where a log was cut and went on, a crash may bring back batches from behind the cut, of the
    same sizes and with valid checksums; but they are of an older leader epoch.
    """
    if batch.leader_epoch < leader_epoch:
        raise DamagedFile(
            f"the batch at byte {position}, offset {batch.base_offset}, is of leader epoch "
            f"{batch.leader_epoch}, after {leader_epoch}"
        )
    if batch.base_offset < next_offset or batch.last_offset < batch.base_offset:
        raise DamagedFile(
            f"the batch at byte {position} has the offsets {batch.base_offset} to "
            f"{batch.last_offset}, after {next_offset - 1}"
        )
    if batch.last_offset - segment.base_offset > OFFSET_DELTA_MAX:
        raise DamagedFile(
            f"the batch at byte {position} ends at offset {batch.last_offset}, too far from the "
            f"segment's base offset"
        )


def _replay(segment: Segment, producers: ProducerState, batch: RecordBatch) -> None:
    ended = producers.replay(batch)
    if ended is not None and ended[0].aborted:
        completed, last_stable_offset = ended
        entry = AbortedTransaction(
            completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
        )
        path = segment.path(names.TRANSACTION_INDEX)
        append_aborted(segment.storage.file_system, path, entry)


class _Walker:
    """Reads a file piece by piece and hands out its batches, checksums checked."""

    __slots__ = ("_data", "_end", "_segment", "_start", "_view", "position")

    def __init__(self, segment: Segment, end: int) -> None:
        self._segment = segment
        self._end = end
        self._data = b""
        self._view = memoryview(b"")
        self._start = 0  # where `_data` begins in the file
        self.position = 0
        """Of the batch that `next_batch` will give; the caller moves it on."""

    def next_batch(self) -> _Valid | None:
        """The batch at `position`; None if there is no whole one."""
        if self._end - self.position < LEGACY_SIZE_MIN:
            return None
        self._have(min(HEADER_SIZE, self._end - self.position))
        inner = self.position - self._start
        size = SIZE.unpack_from(self._data, inner + LENGTH_POSITION)[0] + LOG_OVERHEAD
        if size < LEGACY_SIZE_MIN:
            raise DamagedFile(f"there is no batch at byte {self.position}")
        if size > self._end - self.position:
            return None
        self._have(size)
        inner = self.position - self._start
        magic = self._data[inner + MAGIC_POSITION]
        return self._checked(inner, size) if magic == MAGIC else self._legacy(inner, size)

    def _checked(self, inner: int, size: int) -> _Valid:
        if size < HEADER_SIZE:
            raise DamagedFile(f"the batch at byte {self.position} has only {size} bytes")
        base, _, epoch, _, crc, _, delta, _, timestamp, producer_id, *_ = (
            RECORD_BATCH_HEADER.unpack_from(self._data, inner)
        )
        if crc32c(self._view[inner + ATTRIBUTES_POSITION : inner + size]) != crc:
            raise DamagedFile(
                f"the batch at byte {self.position}, offset {base}, has a wrong checksum"
            )
        return _Valid(size, base, base + delta, epoch, timestamp, producer_id)

    def _legacy(self, inner: int, size: int) -> _Valid:
        message = LegacyMessage(self._view[inner : inner + size])
        if not message.is_valid:
            raise DamagedFile(
                f"the message at byte {self.position}, offset {message.last_offset}, "
                f"has a wrong checksum"
            )
        last = message.last_offset
        return _Valid(size, last, last, -1, message.max_timestamp, -1)

    def batch(self) -> RecordBatch:
        """The batch that `next_batch` gave."""
        return RecordBatch(self._view[self.position - self._start :])

    def _have(self, size: int) -> None:
        """Have that many bytes from `position` on in memory."""
        inner = self.position - self._start
        if inner + size <= len(self._data):
            return
        segment = self._segment
        file = segment.file or segment.open_file()
        length = min(max(_PIECE, size), self._end - self.position)
        self._data = segment.storage.file_system.pread(file.descriptor, length, self.position)
        self._view = memoryview(self._data)
        self._start = self.position
        if len(self._data) < size:
            raise DamagedFile(f"the file ends inside the batch at byte {self.position}")
