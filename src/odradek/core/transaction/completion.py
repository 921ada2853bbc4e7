"""Completion: when the end of a transaction is decided, its partitions get markers.

The leader of each partition writes a marker; a partition whose topic has been deleted needs none.
Writing a marker is retried until it succeeds, by this coordinator or the next one: the decision
cannot be undone. When no partition is left, one record completes the transaction, and the producer
may begin the next one.

The machine does not send. It makes an `Order` for each leader and reports that there are orders
(`listen`); the caller takes them (`take_orders`) and reports the outcome (`on_written`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.transaction.phases import Phase
from odradek.core.transaction.state import TransactionState
from odradek.core.transaction.transaction import (
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    Transaction,
    each,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition

RETRY_MS: Final = 100
"""The pause before a marker, or the last record, is tried again."""

_WRITTEN: Final = frozenset(
    (
        ErrorCode.NONE,
        # The producer has continued there with a later epoch, which ended this transaction.
        ErrorCode.INVALID_PRODUCER_EPOCH,
        # Nothing can have been written to a partition that takes no transactions.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    )
)
"""Errors after which the partition needs no marker. Every other error is retried."""


class Order(NamedTuple):
    """Markers of one transaction, for partitions that one broker leads."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int
    leader: int
    partitions: Sequence[TopicPartition]


class Progress:
    """The markers of one transaction."""

    __slots__ = ("left", "ordered", "transaction")

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.left: set[TopicPartition] = set(each(transaction.partitions))
        """Partitions without a marker, as far as is known."""
        self.ordered: set[TopicPartition] = set()
        """Partitions for which an order is in progress."""


class Completion:
    """Brings decided transactions to their end."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state
        self._progress: dict[str, Progress] = {}
        self._orders: list[Order] = []
        self._on_orders: Callable[[], object] | None = None

    def listen(self, on_orders: Callable[[], object]) -> None:
        """Call `on_orders` when there are orders to take."""
        self._on_orders = on_orders

    def take_orders(self) -> list[Order]:
        """Remove and return the orders that are to be sent now."""
        taken, self._orders = self._orders, []
        return taken

    def close(self) -> None:
        """Another broker coordinates: drop the orders that were not taken, and create no more."""
        self._orders.clear()
        self._on_orders = None

    def left(self, transactional_id: str) -> Iterable[TopicPartition]:
        """The partitions that still belong to a transaction; after the decision, those without a
        marker."""
        progress = self._progress.get(transactional_id)
        if progress is not None:
            return sorted(progress.left)
        return each(self._state.transactions[transactional_id].partitions)

    @property
    def count(self) -> int:
        """Number of transactions with outstanding markers."""
        return len(self._progress)

    # -- beginning ----------------------------------------------------------------------------

    def on_prepared(self, transactional_id: str, error: ApiError | None) -> None:
        """The record of the decision is committed, or `error` says why that is not known."""
        transaction = self._state.transactions.get(transactional_id)
        if transaction is None or not transaction.is_prepared:
            return  # it was taken back
        if error is not None:
            self.resume_later(transactional_id, RETRY_MS)
            return
        if transactional_id not in self._progress:
            self._progress[transactional_id] = Progress(transaction)
            self._order(transactional_id)

    def resume_later(self, transactional_id: str, delay_ms: int = 0) -> None:
        """Continue when the record of the decision is committed."""
        self._state.timers.schedule(
            ("resume", transactional_id), delay_ms, self._resume, transactional_id
        )

    def _resume(self, transactional_id: str) -> CoordinatorResult[None]:
        on_commit = partial(self.on_prepared, transactional_id)
        return CoordinatorResult((), None, on_commit=on_commit)

    def _order(self, transactional_id: str) -> None:
        """Order markers for all partitions for which none is ordered."""
        progress = self._progress[transactional_id]
        transaction = progress.transaction
        for leader, partitions in self._by_leader(progress).items():
            if leader is None:
                progress.left.difference_update(partitions)  # deleted: it needs no marker
                continue
            if leader < 0:
                continue  # it has no leader at present
            progress.ordered.update(partitions)
            self._orders.append(
                Order(
                    transactional_id,
                    transaction.producer_id,
                    transaction.producer_epoch,
                    transaction.phase is Phase.PREPARE_COMMIT,
                    transaction.client_version,
                    leader,
                    partitions,
                )
            )
        if not progress.left:
            self._complete_later(transactional_id, 0)
        elif progress.left != progress.ordered:
            self._order_later(transactional_id)
        if self._orders and self._on_orders is not None:
            self._on_orders()

    def _by_leader(self, progress: Progress) -> dict[int | None, list[TopicPartition]]:
        """Partitions without an order by their leaders; None where there is no such partition."""
        topics = self._state.image.topics
        found: dict[int | None, list[TopicPartition]] = {}
        for name in sorted(progress.left - progress.ordered):
            registration = topics.partition(name.topic, name.partition)
            leader = None if registration is None else registration.leader
            found.setdefault(leader, []).append(name)
        return found

    def _order_later(self, transactional_id: str) -> None:
        self._state.timers.schedule(
            ("markers", transactional_id), RETRY_MS, self._order_again, transactional_id
        )

    def _order_again(self, transactional_id: str) -> CoordinatorResult[None]:
        if transactional_id in self._progress:
            self._order(transactional_id)
        return NOTHING

    # -- answers ------------------------------------------------------------------------------

    def on_written(
        self, order: Order, results: Mapping[TopicPartition, ErrorCode]
    ) -> CoordinatorResult[None]:
        """Process the outcome of an order; a partition missing in `results` was not written."""
        progress = self._progress.get(order.transactional_id)
        if progress is None or progress.transaction.producer_epoch != order.producer_epoch:
            return NOTHING  # an order of an earlier transaction
        for name in order.partitions:
            progress.ordered.discard(name)
            if results.get(name) in _WRITTEN:
                progress.left.discard(name)
        if not progress.left:
            return self._complete(order.transactional_id)
        if progress.left != progress.ordered:
            self._order_later(order.transactional_id)
        return NOTHING

    # -- the end ------------------------------------------------------------------------------

    def _complete_later(self, transactional_id: str, delay_ms: int) -> None:
        self._state.timers.schedule(
            ("complete", transactional_id), delay_ms, self._complete, transactional_id
        )

    def _complete(self, transactional_id: str) -> CoordinatorResult[None]:
        """No partition is left: write the completion record."""
        before = self._state.transactions.get(transactional_id)
        if before is None or not before.is_prepared:
            return NOTHING
        self._progress.pop(transactional_id, None)
        on_commit = partial(self._on_completed, transactional_id, before)
        return CoordinatorResult(
            [self._completed(transactional_id, before)], None, on_commit=on_commit
        )

    def _completed(self, transactional_id: str, before: Transaction) -> CoordinatorRecord:
        phase = (
            Phase.COMPLETE_COMMIT if before.phase is Phase.PREPARE_COMMIT else Phase.COMPLETE_ABORT
        )
        producer = (before.producer_id, before.producer_epoch)
        if before.bumps_epochs and before.next_producer_id != NO_PRODUCER_ID:
            producer = (before.next_producer_id, 0)
        after = before.move(
            phase,
            self._state.clock.now_ms(),
            producer_id=producer[0],
            producer_epoch=producer[1],
            next_producer_id=NO_PRODUCER_ID,
            partitions=NO_PARTITIONS,
        )
        return self._state.record(transactional_id, after)

    def _on_completed(
        self, transactional_id: str, before: Transaction, error: ApiError | None
    ) -> None:
        if error is not None and self._state.transactions.get(transactional_id) == before:
            self._complete_later(transactional_id, RETRY_MS)  # it was taken back
