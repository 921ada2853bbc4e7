"""InitProducerId with a transactional id: the producer gets an epoch that fences earlier producers.

A new producer sends no producer id and no epoch, and takes over the transactional id. A producer
that continues after an error sends its current producer id and epoch. The response depends on the
state of the transactional id:

- If no transaction is open, the epoch is increased by one. If the last epoch is used up, the
  producer gets a new producer id with epoch 0.
- If a transaction is open, the coordinator aborts this transaction with an epoch that no producer
  gets. The response is CONCURRENT_TRANSACTIONS, so the producer retries.
- If a transaction is ending, the response is CONCURRENT_TRANSACTIONS too.

A wrong producer id gets PRODUCER_FENCED. If no transaction is open, a wrong epoch also gets
PRODUCER_FENCED. A producer that missed the response to InitProducerId sends the request again. The
second request has the previous epoch, and gets the same response as the first request (KIP-360).

Sources: KIP-98, KIP-360, KIP-890, KIP-939.
"""

from __future__ import annotations

from odradek.config.broker_config import BrokerConfig
from odradek.core.coordinator.result import CoordinatorResult
from odradek.core.transaction.ending import Ending
from odradek.core.transaction.phases import Phase
from odradek.core.transaction.state import TransactionState
from odradek.core.transaction.transaction import (
    EPOCH_LAST,
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Transaction,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse

_CONCURRENT = int(ErrorCode.CONCURRENT_TRANSACTIONS)


def validate(request: InitProducerIdRequest, config: BrokerConfig) -> None:
    """Check the parts of the request that do not depend on the state.

    Raises:
        ApiError: INVALID_REQUEST: the transactional id is empty.
            TRANSACTIONAL_ID_AUTHORIZATION_FAILED: two-phase commit is disabled.
            UNSUPPORTED_VERSION: keep_prepared_txn is not supported, as in Apache Kafka 4.3.
            INVALID_TRANSACTION_TIMEOUT.
    """
    if not request.transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if request.enable2_pc and not config.transaction_two_phase_commit_enable:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_txn:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    timeout_ms = request.transaction_timeout_ms
    if not request.enable2_pc and not 0 < timeout_ms <= config.transaction_max_timeout_ms:
        raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


class Initialization:
    """Decides on InitProducerId."""

    def __init__(self, state: TransactionState, ending: Ending) -> None:
        self._state = state
        self._ending = ending

    def initialize(
        self, request: InitProducerIdRequest
    ) -> CoordinatorResult[InitProducerIdResponse]:
        """Return a producer id and epoch, or abort the open transaction.

        `validate` has accepted the request.

        Raises:
            ApiError: CONCURRENT_TRANSACTIONS; PRODUCER_FENCED; COORDINATOR_LOAD_IN_PROGRESS if no
                producer id is available yet.
        """
        transactional_id = request.transactional_id
        assert transactional_id is not None
        timeout_ms = NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms
        before = self._state.transactions.get(transactional_id)
        if before is None:
            return self._begin(transactional_id, timeout_ms)
        if before.is_prepared:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        self._check_producer_id(before, request)
        if before.phase is Phase.ONGOING:
            response = InitProducerIdResponse(error_code=_CONCURRENT, producer_epoch=NO_EPOCH)
            return self._ending.fence(transactional_id, before, response)
        return self._continue(transactional_id, before, timeout_ms, request.producer_epoch)

    @staticmethod
    def _check_producer_id(before: Transaction, request: InitProducerIdRequest) -> None:
        """Check the producer id in the request, if it has one.

        It must be the current producer id. The previous producer id is valid too if the request has
        its last epoch. Then the producer may have missed the response with the new producer id.

        Raises:
            ApiError: PRODUCER_FENCED.
        """
        named = request.producer_id
        if named in (NO_PRODUCER_ID, before.producer_id):
            return
        if named != before.previous_producer_id or request.producer_epoch < EPOCH_LAST:
            raise ApiError(ErrorCode.PRODUCER_FENCED)

    def _begin(
        self, transactional_id: str, timeout_ms: int
    ) -> CoordinatorResult[InitProducerIdResponse]:
        """Return a new producer id for a transactional id that is new or has expired."""
        producer_id = self._state.new_producer_id()
        self._state.remember_epoch(transactional_id, NO_EPOCH)
        now_ms = self._state.clock.now_ms()
        after = Transaction(
            producer_id, producer_id, -1, 0, timeout_ms, Phase.EMPTY, NO_PARTITIONS, -1, now_ms, 0
        )
        return self._given(transactional_id, after)

    def _continue(
        self, transactional_id: str, before: Transaction, timeout_ms: int, named: int
    ) -> CoordinatorResult[InitProducerIdResponse]:
        """Return the next epoch, or the next producer id. `named` is the epoch in the request."""
        state = self._state
        epoch = before.producer_epoch
        changes = {"partitions": NO_PARTITIONS, "start_ms": -1, "timeout_ms": timeout_ms}
        if before.is_exhausted and named in (NO_EPOCH, epoch):
            changes["producer_id"] = state.new_producer_id()
            changes["producer_epoch"] = 0
            state.remember_epoch(transactional_id, named)
        elif named in (NO_EPOCH, epoch):
            changes["producer_epoch"] = epoch + 1
            state.remember_epoch(transactional_id, named)
        elif named != state.last_epoch(transactional_id):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        after = before.move(Phase.EMPTY, state.clock.now_ms(), **changes)
        return self._given(transactional_id, after)

    def _given(
        self, transactional_id: str, after: Transaction
    ) -> CoordinatorResult[InitProducerIdResponse]:
        record = self._state.record(transactional_id, after)
        response = InitProducerIdResponse(
            producer_id=after.producer_id, producer_epoch=after.producer_epoch
        )
        return CoordinatorResult([record], response)
