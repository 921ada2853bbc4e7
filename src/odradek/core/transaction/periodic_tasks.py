"""Periodic work: abort transactions after their timeout, and remove unused transactional ids.

The settings have an interval for each of the two checks. So a transaction may stay open for up to
one interval after its timeout (as in Apache Kafka).
"""

from __future__ import annotations

from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.transaction.ending import Ending
from odradek.core.transaction.phases import AT_REST
from odradek.core.transaction.records import tombstone
from odradek.core.transaction.state import TransactionState
from odradek.core.transaction.transaction import NO_TIMEOUT_MS, Transaction

_TIMEOUTS = "timeouts"
_EXPIRY = "expiry"


class PeriodicTasks:
    """Looks for transactions to abort and for ids to remove."""

    def __init__(self, state: TransactionState, ending: Ending) -> None:
        self._state = state
        self._ending = ending

    def schedule(self) -> None:
        """Start the periodic checks."""
        self._schedule_timeouts()
        self._schedule_expiry()

    # -- timeouts -----------------------------------------------------------------------------

    def _schedule_timeouts(self) -> None:
        config = self._state.config
        interval_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._state.timers.schedule(_TIMEOUTS, interval_ms, self._look_for_overdue)

    def _look_for_overdue(self) -> CoordinatorResult[None]:
        """Start one timer for each overdue transaction. Each abort is a separate operation."""
        self._schedule_timeouts()
        state = self._state
        for transactional_id in state.ongoing:
            transaction = state.transactions[transactional_id]
            if self._is_overdue(transaction):
                state.timers.schedule(
                    ("overdue", transactional_id), 0, self._abort, transactional_id, transaction
                )
        return NOTHING

    def _is_overdue(self, transaction: Transaction) -> bool:
        return (
            transaction.timeout_ms != NO_TIMEOUT_MS
            and transaction.start_ms + transaction.timeout_ms < self._state.clock.now_ms()
        )

    def _abort(self, transactional_id: str, seen: Transaction) -> CoordinatorResult[None]:
        """Abort the transaction unless its state has changed.

        After a failure, the next periodic check tries again.

        Raises:
            ApiError: see `Ending.fence`.
        """
        transaction = self._state.transactions.get(transactional_id)
        if transaction is None or transaction != seen:
            return NOTHING
        self._state.note(transactional_id, "aborted: the transaction exceeded its timeout")
        return self._ending.fence(transactional_id, transaction, None)

    # -- expiry -------------------------------------------------------------------------------

    def _schedule_expiry(self) -> None:
        config = self._state.config
        interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._state.timers.schedule(_EXPIRY, interval_ms, self._expire)

    def _expire(self) -> CoordinatorResult[None]:
        """Remove ids without an open transaction after `transactional.id.expiration.ms`."""
        self._schedule_expiry()
        state = self._state
        limit_ms = state.clock.now_ms() - state.config.transactional_id_expiration_ms
        expired = [
            transactional_id
            for transactional_id, transaction in state.transactions.items()
            if transaction.phase in AT_REST and transaction.update_ms <= limit_ms
        ]
        for transactional_id in expired:
            state.note(transactional_id, "removed: not used for transactional.id.expiration.ms")
        return CoordinatorResult([tombstone(each) for each in expired], None, atomic=False)
