"""What one response to Fetch holds of one partition: whole batches, and which of them are visible."""

from __future__ import annotations

from struct import Struct
from typing import Final

from odradek.client.core.fetch_state import FetchState
from odradek.records.batch import LOG_OVERHEAD, RecordBatch
from odradek.records.control import ControlType, control_type
from odradek.records.errors import CorruptBatch
from odradek.records.record import iterate_records

_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_LENGTH_POSITION: Final = 8
_LAST_OFFSET_DELTA_POSITION: Final = 23
_MAGIC_POSITION: Final = 16
_MAGIC: Final = 2


def whole_batches(records: memoryview) -> tuple[int, int]:
    """Return the length of the complete batches in `records`, and the offset after the last one."""
    position, last, end = 0, -1, len(records)
    while end - position >= LOG_OVERHEAD:
        length: int = _INT32.unpack_from(records, position + _LENGTH_POSITION)[0]
        after = position + LOG_OVERHEAD + length
        if length <= 0 or after > end:
            break
        last, position = position, after
    if last < 0 or position - last < _LAST_OFFSET_DELTA_POSITION + 4:
        return 0, -1
    base_offset: int = _INT64.unpack_from(records, last)[0]
    delta: int = _INT32.unpack_from(records, last + _LAST_OFFSET_DELTA_POSITION)[0]
    return position, base_offset + delta + 1


class FetchedChunk:
    """Batches of a partition, which are taken one after the other.

    An aborted transaction begins at the offset that the broker reports, and ends at the abort marker of
    its producer, which may be missing. Without `aborted` all data batches are visible.
    """

    def __init__(
        self,
        state: FetchState,
        node: int,
        records: memoryview,
        next_offset: int,
        aborted: list[tuple[int, int]],
        *,
        checks_crcs: bool,
    ) -> None:
        """`aborted` has pairs of first offset and producer id."""
        self.state = state
        self.node = node
        self.next_offset = next_offset
        """The offset after the last batch."""
        self.is_begun = False
        """Whether a batch has been taken."""
        self.leader_epoch = state.epoch
        """The epoch of the last batch that has been looked at, also if it is not visible."""
        self._version = state.version
        self._records = records
        self._position = 0
        self._to_come = sorted(aborted, reverse=True)
        self._aborting: set[int] = set()
        self._checks_crcs = checks_crcs

    @property
    def is_late(self) -> bool:
        """Whether the position has changed since the chunk was fetched."""
        return self._version != self.state.version

    def take(self, offset: int) -> RecordBatch | None:
        """Return the next visible batch with records from an offset on; None at the end.

        Raises:
            RecordsError: the next batch is corrupt.
        """
        self.is_begun = True
        while self._position < len(self._records):
            batch = self._batch()
            if self._checks_crcs:
                batch.check()
            self._position += batch.size
            self.leader_epoch = batch.leader_epoch
            if self._is_visible(batch) and batch.next_offset > offset:
                return batch
        return None

    def _batch(self) -> RecordBatch:
        rest = self._records[self._position :]
        if len(rest) > _MAGIC_POSITION and rest[_MAGIC_POSITION] != _MAGIC:
            raise CorruptBatch(f"the batch has format {rest[_MAGIC_POSITION]}, not {_MAGIC}")
        return RecordBatch(rest)

    def _is_visible(self, batch: RecordBatch) -> bool:
        while self._to_come and self._to_come[-1][0] <= batch.last_offset:
            self._aborting.add(self._to_come.pop()[1])
        if batch.is_control:
            if batch.producer_id in self._aborting and _is_abort_marker(batch):
                self._aborting.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborting)


def _is_abort_marker(batch: RecordBatch) -> bool:
    record = next(iterate_records(batch), None)
    return record is not None and control_type(record) == ControlType.ABORT
