"""Completes transactions: writes markers to their partitions, and then the last record.

When the end of a transaction is decided, the leader of each partition must append a marker. A
partition whose topic was deleted needs no marker. When the record PrepareCommit or PrepareAbort is
committed in `__transaction_state`, the decision cannot be undone. So this coordinator, or the next
coordinator, repeats the request for a marker until it succeeds. When all markers are written, one
record completes the transaction. Then the producer may begin the next transaction.

This module sends no requests. It creates an `Order` (the markers that one leader must write) for
each leader, and calls the function that was passed to `listen`. The caller takes the orders
(`take_orders`), sends the markers, and reports the results (`on_written`).
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
"""The delay before a marker or the last record is tried again."""

_WRITTEN: Final = frozenset(
    (
        ErrorCode.NONE,
        # The partition has a later epoch of the producer, so the transaction has ended there.
        ErrorCode.INVALID_PRODUCER_EPOCH,
        # The partition does not support transactions, so it has no records of this transaction.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    )
)
"""Results after which the partition needs no marker. Other errors are retried."""


class Order(NamedTuple):
    """The markers of one transaction that one leader must write."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int
    leader: int
    partitions: Sequence[TopicPartition]


class Progress:
    """The missing markers of one transaction."""

    __slots__ = ("left", "ordered", "transaction")

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.left: set[TopicPartition] = set(each(transaction.partitions))
        """Partitions whose leader has not confirmed the marker yet."""
        self.ordered: set[TopicPartition] = set()
        """Partitions in `left` that are in an order without a result."""


class Completion:
    """Completes all transactions whose end is decided."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state
        self._progress: dict[str, Progress] = {}
        self._orders: list[Order] = []
        self._on_orders: Callable[[], object] | None = None

    def listen(self, on_orders: Callable[[], object]) -> None:
        """Call `on_orders` when there are orders to take."""
        self._on_orders = on_orders

    def take_orders(self) -> list[Order]:
        """Remove and return all orders, which the caller must send."""
        taken, self._orders = self._orders, []
        return taken

    def close(self) -> None:
        """Drop all orders and report no new orders: another broker is the coordinator now."""
        self._orders.clear()
        self._on_orders = None

    def left(self, transactional_id: str) -> Iterable[TopicPartition]:
        """Return the partitions of a transaction.

        When markers are being written, return only the partitions without a marker.
        """
        progress = self._progress.get(transactional_id)
        if progress is not None:
            return sorted(progress.left)
        return each(self._state.transactions[transactional_id].partitions)

    @property
    def count(self) -> int:
        """Number of transactions with missing markers."""
        return len(self._progress)

    # -- beginning ----------------------------------------------------------------------------

    def on_prepared(self, transactional_id: str, error: ApiError | None) -> None:
        """Create orders, because the record of the decision is committed.

        If `error` is set, it is not known whether the record is committed. Then try again later.
        """
        transaction = self._state.transactions.get(transactional_id)
        if transaction is None or not transaction.is_prepared:
            return  # the decision was undone, because its record was not written
        if error is not None:
            self.resume_later(transactional_id, RETRY_MS)
            return
        if transactional_id not in self._progress:
            self._progress[transactional_id] = Progress(transaction)
            self._order(transactional_id)

    def resume_all(self) -> None:
        """Continue with all transactions whose end is decided: the coordinator epoch is new."""
        for transactional_id, transaction in self._state.transactions.items():
            if transaction.is_prepared and transactional_id not in self._progress:
                self.resume_later(transactional_id)

    def resume_later(self, transactional_id: str, delay_ms: int = 0) -> None:
        """After a delay, wait until the record of the decision is committed, then send markers."""
        self._state.timers.schedule(
            ("resume", transactional_id), delay_ms, self._resume, transactional_id
        )

    def _resume(self, transactional_id: str) -> CoordinatorResult[None]:
        on_commit = partial(self.on_prepared, transactional_id)
        return CoordinatorResult((), None, on_commit=on_commit)

    def _order(self, transactional_id: str) -> None:
        """Create orders for all partitions that need a marker and are not in an order."""
        progress = self._progress[transactional_id]
        transaction = progress.transaction
        assert transaction.is_prepared, "markers follow the decision"
        for leader, partitions in self._by_leader(progress).items():
            if leader is None:
                progress.left.difference_update(partitions)  # the partitions were deleted
                continue
            if leader < 0:
                continue  # the partitions have no leader now
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
        assert progress.ordered <= progress.left, "what is ordered has no marker"
        if not progress.left:
            self._complete_later(transactional_id, 0)
        elif progress.left != progress.ordered:
            self._order_later(transactional_id)
        if self._orders and self._on_orders is not None:
            self._on_orders()

    def _by_leader(self, progress: Progress) -> dict[int | None, list[TopicPartition]]:
        """Return the partitions that need an order, by leader.

        Partitions that do not exist any more have the leader None.
        """
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

    # -- results ------------------------------------------------------------------------------

    def on_written(
        self, order: Order, results: Mapping[TopicPartition, ErrorCode], is_newest: bool = True
    ) -> CoordinatorResult[None]:
        """Process the results of an order. A partition that is not in `results` has no marker.

        `is_newest` is whether this is still the newest coordinator epoch that this broker knows.
        """
        progress = self._progress.get(order.transactional_id)
        if progress is None or progress.transaction.producer_epoch != order.producer_epoch:
            return NOTHING  # the order belongs to an earlier transaction
        for name in order.partitions:
            progress.ordered.discard(name)
            if results.get(name) in _WRITTEN:
                progress.left.discard(name)
        if is_newest and ErrorCode.TRANSACTION_COORDINATOR_FENCED in results.values():
            # A coordinator with a later epoch has written a marker: it completes the transaction.
            del self._progress[order.transactional_id]
            return NOTHING
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
        """Write the last record, because all markers are written."""
        before = self._state.transactions.get(transactional_id)
        if before is None or not before.is_prepared:
            return NOTHING
        progress = self._progress.pop(transactional_id, None)
        assert progress is None or not progress.left, "the last record follows all markers"
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
            self._complete_later(transactional_id, RETRY_MS)  # the change was undone
