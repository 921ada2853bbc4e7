"""EndTxn, and the aborts that the coordinator decides by itself.

In version 1 of the protocol, the request must have the producer's current epoch. The end of a
transaction does not change the epoch. The table has the next phase, or the result without a change:

    phase            commit               abort
    ---------------  -------------------  -------------------
    Ongoing          PrepareCommit        PrepareAbort
    CompleteCommit   done already         INVALID_TXN_STATE
    CompleteAbort    INVALID_TXN_STATE    done already
    Empty            INVALID_TXN_STATE    INVALID_TXN_STATE

In version 2 (KIP-890), every end of a transaction increases the epoch by one. If the last epoch is
used up, the producer gets a new producer id with epoch 0 instead. So a delayed request of one
transaction cannot change the next transaction. A request with the previous epoch is a retry. A
producer may abort a transaction that has not begun, because it may not know whether the transaction
has begun. "fenced" means the error PRODUCER_FENCED:

    phase            commit             commit (retry)     abort         abort (retry)
    ---------------  -----------------  -----------------  ------------  -----------------
    Ongoing          PrepareCommit      fenced             PrepareAbort  fenced
    Empty            INVALID_TXN_STATE  fenced             PrepareAbort  fenced
    CompleteCommit   INVALID_TXN_STATE  done already       PrepareAbort  INVALID_TXN_STATE
    CompleteAbort    INVALID_TXN_STATE  INVALID_TXN_STATE  PrepareAbort  done already

In both versions the error is CONCURRENT_TRANSACTIONS while the coordinator still writes the markers
of the previous transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from odradek.core.coordinator.result import NO_RECORDS, CoordinatorResult
from odradek.core.transaction.phases import Phase
from odradek.core.transaction.state import TransactionState
from odradek.core.transaction.transaction import (
    EPOCH_BUMP_VERSION,
    EPOCH_LAST,
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.end_txn_response import EndTxnResponse

ResponseT = TypeVar("ResponseT")

OnPrepared = Callable[[str, ApiError | None], None]
"""Called when the record of the decision is committed.

The arguments are the transactional id and None. If it is not known whether the record is committed,
the second argument is the error.
"""


class Ending:
    """Decides how transactions end."""

    def __init__(self, state: TransactionState, on_prepared: OnPrepared) -> None:
        self._state = state
        self._on_prepared = on_prepared

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        client_version: int,
    ) -> CoordinatorResult[EndTxnResponse]:
        """Process EndTxn. In version 2 the response has the new producer id and epoch.

        Raises:
            ApiError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
                CONCURRENT_TRANSACTIONS or INVALID_TXN_STATE. COORDINATOR_LOAD_IN_PROGRESS: a new
                producer id is needed but not available yet.
        """
        before = self._state.find(transactional_id)
        if client_version < EPOCH_BUMP_VERSION:
            if before.producer_id != producer_id:
                raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            if before.producer_epoch != producer_epoch:
                raise ApiError(ErrorCode.PRODUCER_FENCED)
            return self._end_version_1(transactional_id, before, committed)
        return self._end_version_2(transactional_id, before, producer_id, producer_epoch, committed)

    # -- version 1 ----------------------------------------------------------------------------

    def _end_version_1(
        self, transactional_id: str, before: Transaction, committed: bool
    ) -> CoordinatorResult[EndTxnResponse]:
        if before.is_prepared:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if before.phase is Phase.ONGOING:
            phase = Phase.PREPARE_COMMIT if committed else Phase.PREPARE_ABORT
            after = before.move(
                phase, self._state.clock.now_ms(), client_version=0, next_producer_id=NO_PRODUCER_ID
            )
            return self._prepare(transactional_id, after, EndTxnResponse())
        complete = Phase.COMPLETE_COMMIT if committed else Phase.COMPLETE_ABORT
        if before.phase is not complete:
            raise _invalid(before, committed)
        return CoordinatorResult(NO_RECORDS, EndTxnResponse())

    # -- version 2 ----------------------------------------------------------------------------

    def _end_version_2(
        self,
        transactional_id: str,
        before: Transaction,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
    ) -> CoordinatorResult[EndTxnResponse]:
        if before.is_prepared:
            # This comes before the check of the producer id and epoch, because the producer may
            # already have the next producer id or epoch.
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        missed_rotation = (
            before.previous_producer_id == producer_id
            and producer_epoch == EPOCH_LAST
            and before.producer_epoch == 0
        )
        if before.producer_id != producer_id and not missed_rotation:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        is_complete = before.phase in {Phase.COMPLETE_COMMIT, Phase.COMPLETE_ABORT}
        missed_answer = missed_rotation or before.producer_epoch == producer_epoch + 1
        if before.producer_epoch != producer_epoch and not (is_complete and missed_answer):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if before.phase is Phase.ONGOING:
            return self._prepare_version_2(transactional_id, before, committed, before.start_ms)
        if missed_answer:
            if committed is not (before.phase is Phase.COMPLETE_COMMIT):
                raise _invalid(before, committed)
            answer = _producer(before.producer_id, before.producer_epoch)
            return CoordinatorResult(NO_RECORDS, answer)
        if committed:
            raise _invalid(before, committed)
        # The coordinator has no open transaction. So the transaction begins and is aborted now.
        now_ms = self._state.clock.now_ms()
        return self._prepare_version_2(transactional_id, before, committed, now_ms)

    def _prepare_version_2(
        self, transactional_id: str, before: Transaction, committed: bool, start_ms: int
    ) -> CoordinatorResult[EndTxnResponse]:
        phase = Phase.PREPARE_COMMIT if committed else Phase.PREPARE_ABORT
        after = self._bumped(before, phase, start_ms)
        self._state.remember_epoch(transactional_id, before.producer_epoch)
        if after.next_producer_id == NO_PRODUCER_ID:
            answer = _producer(after.producer_id, after.producer_epoch)
        else:
            answer = _producer(after.next_producer_id, 0)
        return self._prepare(transactional_id, after, answer)

    def _bumped(self, before: Transaction, phase: Phase, start_ms: int) -> Transaction:
        """Return the state in which the end is decided.

        Its epoch is one higher than the epoch of the records. The markers get this higher epoch.
        """
        next_producer_id = NO_PRODUCER_ID
        if before.is_exhausted:
            next_producer_id = self._state.new_producer_id()
        return before.move(
            phase,
            self._state.clock.now_ms(),
            producer_epoch=min(before.producer_epoch + 1, EPOCH_MAX),
            next_producer_id=next_producer_id,
            start_ms=start_ms,
            client_version=EPOCH_BUMP_VERSION,
        )

    # -- the coordinator's own aborts ---------------------------------------------------------

    def fenced(self, transactional_id: str, before: Transaction) -> Transaction:
        """Return the aborted transaction, with a higher epoch than the producer has.

        Raises:
            ApiError: COORDINATOR_LOAD_IN_PROGRESS: no new producer id is available.
        """
        assert before.phase is Phase.ONGOING
        if self._state.level >= EPOCH_BUMP_VERSION:
            after = self._bumped(before, Phase.PREPARE_ABORT, before.start_ms)
            self._state.remember_epoch(transactional_id, before.producer_epoch)
            return after
        self._state.remember_epoch(transactional_id, NO_EPOCH)
        return before.move(
            Phase.PREPARE_ABORT,
            self._state.clock.now_ms(),
            producer_epoch=min(before.producer_epoch + 1, EPOCH_MAX),
            next_producer_id=NO_PRODUCER_ID,
            client_version=0,
        )

    def fence(
        self, transactional_id: str, before: Transaction, response: ResponseT
    ) -> CoordinatorResult[ResponseT]:
        """Abort the open transaction, and fence its producer.

        Raises:
            ApiError: see `fenced`.
        """
        return self._prepare(transactional_id, self.fenced(transactional_id, before), response)

    def _prepare(
        self, transactional_id: str, after: Transaction, response: Any
    ) -> CoordinatorResult[Any]:
        record = self._state.record(transactional_id, after)
        on_commit = partial(self._on_prepared, transactional_id)
        return CoordinatorResult([record], response, on_commit=on_commit)


def _producer(producer_id: int, producer_epoch: int) -> EndTxnResponse:
    return EndTxnResponse(producer_id=producer_id, producer_epoch=producer_epoch)


def _invalid(before: Transaction, committed: bool) -> ApiError:
    wish = "committed" if committed else "aborted"
    return ApiError(
        ErrorCode.INVALID_TXN_STATE,
        f"a transaction in phase {before.phase.label} cannot be {wish}",
    )
