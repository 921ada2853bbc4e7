"""The in-memory state of idempotent and transactional producers in one log.

For each producer id, the state has the epoch, the last five batches, and the first offset of the
open transaction. Each append is checked against the state:

- A batch that was appended before is a duplicate. The response has the offsets of the first append.
- A batch whose sequence number is not the next one is out of order.
- A batch of an older epoch is fenced.

The state also has two groups of transactions:

- `ongoing` transactions have begun and have no marker.
- `unreplicated` transactions have a marker that is not below the high watermark yet.

The first unstable offset is the smallest first offset of the transactions in both groups. The last
stable offset is the lower one of the first unstable offset and the high watermark.

`ProducerAppendInfo` collects the changes that a batch makes. `ProducerState.update` applies them
after the batch was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.log.errors import RecordsRefused
from odradek.log.origin import AppendOrigin
from odradek.log.results import ProducerDescription
from odradek.model.errors import ErrorCode
from odradek.records.batch import (
    CONTROL_FLAG,
    SEQUENCE_MAX,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    add_to_sequence,
)
from odradek.records.control import EndOfTransaction, read_end_of_transaction

BATCHES_KEPT: Final = 5
NONE: Final = -1
EPOCH_MAX: Final = 2**15 - 1


class BatchMetadata(NamedTuple):
    """The offsets, sequence numbers and timestamp of a batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The sequence number of the first record."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


_new_batch: Callable[[type[BatchMetadata], tuple[int, int, int, int]], BatchMetadata]
_new_batch = tuple.__new__
"""Creates a `BatchMetadata` in half the time of a call of the class."""


class ProducerStateEntry:
    """The state of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NONE,
        *,
        last_timestamp: int = NONE,
        coordinator_epoch: int = NONE,
        transaction_first_offset: int = NONE,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[BatchMetadata] = []
        """The last `BATCHES_KEPT` batches of this epoch, oldest first."""
        self.next_sequence = NONE
        """The sequence number that the next batch of this epoch must have; -1 if unknown."""
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        """First offset of the open transaction; -1 if none is open."""

    def copy(self) -> ProducerStateEntry:
        """Return a copy."""
        other = ProducerStateEntry(
            self.producer_id,
            self.epoch,
            last_timestamp=self.last_timestamp,
            coordinator_epoch=self.coordinator_epoch,
            transaction_first_offset=self.transaction_first_offset,
        )
        other.batches = self.batches.copy()
        other.next_sequence = self.next_sequence
        return other

    def set_epoch(self, epoch: int) -> None:
        """Begin a new epoch, which has no batches yet."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = []
            self.next_sequence = NONE

    def add_batch(
        self, epoch: int, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int
    ) -> None:
        """Record an appended batch."""
        if epoch != self.epoch:
            self.set_epoch(epoch)
        batches = self.batches
        batches.append(
            _new_batch(BatchMetadata, (last_sequence, last_offset, offset_delta, timestamp))
        )
        if len(batches) > BATCHES_KEPT:
            del batches[0]
        self.next_sequence = (last_sequence + 1) & SEQUENCE_MAX if last_sequence >= 0 else NONE
        self.last_timestamp = timestamp

    def begin_transaction(self, offset: int) -> None:
        """Record that the first batch of a transaction was appended at `offset`."""
        self.transaction_first_offset = offset

    def end_transaction(self, epoch: int, coordinator_epoch: int, timestamp: int) -> int:
        """Record a marker. Return the first offset of its transaction; -1 if none was open."""
        self.set_epoch(epoch)
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp
        first_offset = self.transaction_first_offset
        self.transaction_first_offset = NONE
        return first_offset

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        """Return the stored batch with the same epoch and sequence numbers."""
        if batch.producer_epoch != self.epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for known in self.batches:
            if known.last_sequence == last and known.first_sequence == first:
                return known
        return None


class CompletedTransaction(NamedTuple):
    """A transaction whose marker was read or written."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class Verification:
    """A pending verification. The coordinator is asked to confirm a transaction (KIP-890)."""

    __slots__ = ("created_ms", "epoch", "guard", "lowest_sequence", "supports_epoch_bump")

    def __init__(
        self, created_ms: int, guard: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> None:
        self.created_ms = created_ms
        self.guard = guard
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump

    def saw(self, sequence: int, epoch: int) -> None:
        """Record another batch of the producer that arrived during the verification."""
        if epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        elif epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence


class ProducerAppendInfo:
    """The changes that one batch makes to the state of its producer.

    `known` is the producer's entry, or None. `verification` is the pending verification of the
    producer's transaction, or None.
    """

    __slots__ = (
        "_origin",
        "_transaction_version",
        "_verification",
        "entry",
        "is_verified",
        "started_at",
    )

    def __init__(
        self,
        producer_id: int,
        known: ProducerStateEntry | None,
        verification: Verification | None,
        origin: AppendOrigin,
        transaction_version: int = 0,
    ) -> None:
        self.entry = ProducerStateEntry(producer_id) if known is None else known.copy()
        """The state of the producer after the batch."""
        self.started_at = NONE
        """First offset of the transaction that the batch begins; -1 if it begins none."""
        self.is_verified = False
        """Whether the batch ends the pending verification."""
        self._verification = verification
        self._origin = origin
        self._transaction_version = transaction_version

    def add(self, batch: RecordBatch, first_offset: int) -> CompletedTransaction | None:
        """Check a batch that will begin at `first_offset`.

        Return the transaction that the batch ends; None if it ends none.

        Raises:
            RecordsRefused: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
                INVALID_TXN_STATE or TRANSACTION_COORDINATOR_FENCED.
            InvalidRecords: a control batch has a record that is not a marker.
        """
        entry = self.entry
        if batch.is_transactional:
            verification = self._verification
            awaits_next = (
                verification is not None
                and verification.supports_epoch_bump
                and batch.is_control
                and batch.producer_epoch == verification.epoch
            )
            self.is_verified = not awaits_next
        if not batch.is_control:
            self._add_data(entry, batch, first_offset)
            return None
        marker = read_end_of_transaction(batch)
        return None if marker is None else self._end(entry, batch, marker, first_offset)

    def _add_data(self, entry: ProducerStateEntry, batch: RecordBatch, first_offset: int) -> None:
        self._check_epoch(entry, batch.producer_epoch, 0)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(entry, batch, first_offset)
        last_offset = first_offset + batch.last_offset_delta
        entry.add_batch(
            batch.producer_epoch,
            batch.last_sequence,
            last_offset,
            batch.last_offset_delta,
            batch.max_timestamp,
        )
        if entry.transaction_first_offset < 0 and batch.is_transactional:
            entry.begin_transaction(first_offset)
            self.started_at = first_offset
        elif entry.transaction_first_offset >= 0 and not batch.is_transactional:
            raise RecordsRefused(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {entry.producer_id} has an open transaction; "
                f"its batch at offset {first_offset} is outside of it",
            )

    def _check_epoch(self, entry: ProducerStateEntry, epoch: int, transaction_version: int) -> None:
        current = entry.epoch
        # In version 2 the coordinator raises the epoch before it writes the marker.
        if epoch > current or (epoch == current and transaction_version < 2):
            return
        if (
            transaction_version >= 2
            and epoch == current
            and (entry.transaction_first_offset < 0 or epoch == EPOCH_MAX)
        ):
            return  # a repeated marker of an ended transaction
        if self._origin is not AppendOrigin.REPLICATION:
            raise fenced(entry.producer_id, epoch, current)

    def _check_sequence(
        self, entry: ProducerStateEntry, batch: RecordBatch, first_offset: int
    ) -> None:
        first = batch.base_sequence
        verification = self._verification
        expected: int | str | None = None
        if verification is not None and first > verification.lowest_sequence:
            expected = verification.lowest_sequence
        elif (
            verification is not None
            and verification.supports_epoch_bump
            and first != 0
            and not entry.batches
        ):
            expected = 0
        elif batch.producer_epoch != entry.epoch:
            # If the epoch is unknown, the state is new, lost or expired. Then any number is valid.
            if first != 0 and entry.epoch != NONE:
                expected = "0 in a new epoch"
        elif first != add_to_sequence(
            entry.batches[-1].last_sequence if entry.batches else NONE, 1
        ):
            expected = entry.next_sequence if entry.batches else 0
        if expected is not None:
            raise RecordsRefused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {entry.producer_id} sent sequence number {first} for offset "
                f"{first_offset}; the next one is {expected}",
            )

    def _end(
        self, entry: ProducerStateEntry, batch: RecordBatch, marker: EndOfTransaction, offset: int
    ) -> CompletedTransaction | None:
        self._check_epoch(entry, batch.producer_epoch, self._transaction_version)
        if (
            entry.coordinator_epoch > marker.coordinator_epoch
            and self._origin is not AppendOrigin.REPLICATION
        ):
            raise RecordsRefused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker of producer {entry.producer_id} comes from coordinator epoch "
                f"{marker.coordinator_epoch}; {entry.coordinator_epoch} was seen",
            )
        first_offset = entry.end_transaction(
            batch.producer_epoch, marker.coordinator_epoch, batch.max_timestamp
        )
        if first_offset < 0:
            return None  # the producer has no batches here
        return CompletedTransaction(entry.producer_id, first_offset, offset, not marker.committed)


def fenced(producer_id: int, epoch: int, current: int) -> RecordsRefused:
    """Return the error for a producer whose epoch is older than the current epoch."""
    return RecordsRefused(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer_id} has epoch {epoch}; {current} was seen",
    )


class ProducerState:
    """The producers of one log."""

    __slots__ = (
        "_last_guard",
        "entries",
        "first_unstable_offset",
        "ongoing",
        "unreplicated",
        "verifications",
    )

    def __init__(self) -> None:
        self.entries: dict[int, ProducerStateEntry] = {}
        self.ongoing: dict[int, int] = {}
        """First offset of each open transaction -> producer id."""
        self.unreplicated: dict[int, int] = {}
        """First offset of each unreplicated transaction -> offset of its marker."""
        self.verifications: dict[int, Verification] = {}
        self.first_unstable_offset = NONE
        """Lowest first offset in `ongoing` and `unreplicated`; -1 if there is no transaction."""
        self._last_guard = 0

    def clear(self) -> None:
        """Remove all producers."""
        self.entries.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.verifications.clear()
        self.first_unstable_offset = NONE

    # -- appending ------------------------------------------------------------------------------

    def continued(
        self, producer_id: int, epoch: int, sequence: int, is_transactional: int, guard: int
    ) -> ProducerStateEntry | None:
        """Return the entry of the producer if the batch is certainly valid, else None.

        If the result is None, `prepare` must check the batch. A batch is certainly valid if it has
        the next sequence number and one of these conditions is true:

        - A transaction is open, and the batch is transactional.
        - No transaction is open, and the batch is not transactional.
        - The batch is the first batch of a transaction, and has the verification guard. Such a
          batch may also begin a new epoch with sequence number 0.
        """
        entry = self.entries.get(producer_id)
        if entry is None or sequence < 0:
            return None
        expected = entry.next_sequence
        is_next = epoch == entry.epoch and (sequence == expected or (expected < 0 and not sequence))
        if (entry.transaction_first_offset >= 0) == bool(is_transactional):
            return entry if is_next and producer_id not in self.verifications else None
        verification = self.verifications.get(producer_id)
        begins = (
            is_transactional
            and verification is not None
            and verification.guard == guard
            and sequence <= verification.lowest_sequence
            and (is_next or (sequence == 0 and epoch > entry.epoch))
        )
        return entry if begins else None

    def plain_entry(
        self, producer_id: int, epoch: int, sequence: int, attributes: int
    ) -> ProducerStateEntry | None:
        """Return the producer's entry if a replicated batch neither begins nor ends a transaction.

        Return None otherwise, or if the producer is unknown. To apply such a batch, call only
        `ProducerStateEntry.add_batch`.
        """
        entry = self.entries.get(producer_id)
        if (
            entry is None
            or entry.epoch != epoch
            or sequence < 0
            or attributes & CONTROL_FLAG
            or (entry.transaction_first_offset >= 0) != (attributes & TRANSACTIONAL_FLAG != 0)
        ):
            return None
        return entry

    def prepare(
        self, producer_id: int, origin: AppendOrigin, transaction_version: int = 0
    ) -> ProducerAppendInfo:
        """Return the object that collects the changes. Pass it to `update` after the write."""
        return ProducerAppendInfo(
            producer_id,
            self.entries.get(producer_id),
            self.verifications.get(producer_id),
            origin,
            transaction_version,
        )

    def update(self, info: ProducerAppendInfo, completed: CompletedTransaction | None) -> None:
        """Apply the changes of a written batch. `completed` is the transaction that it ended."""
        producer_id = info.entry.producer_id
        self.entries[producer_id] = info.entry
        if info.is_verified:
            self.verifications.pop(producer_id, None)
        if info.started_at >= 0:
            self._begin(info.started_at, producer_id)
        if completed is not None:
            self.complete(completed)

    def begin_transaction(self, entry: ProducerStateEntry, offset: int) -> None:
        """Record that the first, verified batch of a transaction was appended at `offset`."""
        entry.begin_transaction(offset)
        del self.verifications[entry.producer_id]
        self._begin(offset, entry.producer_id)

    def _begin(self, offset: int, producer_id: int) -> None:
        self.ongoing[offset] = producer_id
        if self.first_unstable_offset < 0:
            self.first_unstable_offset = offset

    def complete(self, completed: CompletedTransaction) -> None:
        """Record that the marker of a transaction was appended."""
        del self.ongoing[completed.first_offset]
        self.unreplicated[completed.first_offset] = completed.last_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Remove `unreplicated` transactions whose marker is below the high watermark."""
        replicated = [
            first for first, marker in self.unreplicated.items() if marker < high_watermark
        ]
        for first in replicated:
            del self.unreplicated[first]
        if replicated:
            self._find_first_unstable_offset()

    def _find_first_unstable_offset(self) -> None:
        self.first_unstable_offset = min((*self.ongoing, *self.unreplicated), default=NONE)

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset of the log after the end of this transaction."""
        others = (
            first
            for first, producer_id in self.ongoing.items()
            if producer_id != completed.producer_id
        )
        return min(others, default=completed.last_offset + 1)

    def has_ongoing(self, producer_id: int, epoch: int) -> bool:
        """Return whether the producer has an open transaction in this log in this epoch."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.epoch == epoch and entry.transaction_first_offset >= 0

    def start_verification(
        self, now_ms: int, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> int:
        """Return the guard for the first batch of a transaction (KIP-890).

        Return 0 if the transaction is open in this log already.

        Raises:
            RecordsRefused: INVALID_PRODUCER_EPOCH.
        """
        entry = self.entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise fenced(producer_id, epoch, entry.epoch)
        if self.has_ongoing(producer_id, epoch):
            return 0
        verification = self.verifications.get(producer_id)
        if verification is None:
            self._last_guard += 1
            verification = Verification(
                now_ms, self._last_guard, sequence, epoch, supports_epoch_bump
            )
            self.verifications[producer_id] = verification
        verification.saw(sequence, epoch)
        return verification.guard

    def take_verifications(self, other: ProducerState) -> None:
        """Continue the verifications of another log, which this log replaces."""
        self.verifications = other.verifications.copy()
        self._last_guard = other._last_guard

    # -- entries ------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers that have been idle for `expiration_ms` and have no open transaction."""
        idle = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self.entries[producer_id]
        stale = [
            producer_id
            for producer_id, verification in self.verifications.items()
            if now_ms - verification.created_ms >= expiration_ms
        ]
        for producer_id in stale:
            del self.verifications[producer_id]

    def active_producers(self) -> list[ProducerDescription]:
        """Return the producers for a DescribeProducers response."""
        return [
            ProducerDescription(
                entry.producer_id,
                entry.epoch,
                entry.batches[-1].last_sequence if entry.batches else NONE,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
            for entry in self.entries.values()
        ]

    def add_entry(self, entry: ProducerStateEntry) -> None:
        """Add a producer from a snapshot."""
        self.entries[entry.producer_id] = entry
        if entry.transaction_first_offset >= 0:
            self.ongoing[entry.transaction_first_offset] = entry.producer_id
            self._find_first_unstable_offset()

    def replay(self, batch: RecordBatch) -> tuple[CompletedTransaction, int] | None:
        """Apply the next batch of the log. The batch was checked when it was appended.

        If the batch ends a transaction, return the transaction and the last stable offset after it.

        Raises:
            InvalidRecords: a control batch has a record that is not a marker.
            RecordsRefused: INVALID_TXN_STATE. This means that the log is damaged.
        """
        info = self.prepare(batch.producer_id, AppendOrigin.REPLICATION)
        completed = info.add(batch, batch.base_offset)
        last_stable_offset = NONE
        if completed is not None:
            last_stable_offset = self.last_stable_offset_after(completed)
        self.update(info, completed)
        return None if completed is None else (completed, last_stable_offset)
