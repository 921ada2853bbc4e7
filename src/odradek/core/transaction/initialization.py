"""InitProducerId with a transactional id: the producer gets an epoch that fences earlier producers.

A producer that names its present id and epoch continues; any other one takes the id over. Then:

- if no transaction is open, the epoch is bumped; if the last epoch is used up, the producer gets a
  new producer id with epoch 0;
- if a transaction is open, it is aborted first, under an epoch that no producer gets, and the
  response is CONCURRENT_TRANSACTIONS, so that the producer retries;
- if a transaction is ending, the response is CONCURRENT_TRANSACTIONS likewise.

A producer that names the epoch before the present one has missed the response to the same request
(KIP-360) and gets that response again. Sources: KIP-98, KIP-360, KIP-890, KIP-939.
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
    """Check what does not depend on the state.

    Raises:
        ApiError: INVALID_REQUEST: the id is empty; TRANSACTIONAL_ID_AUTHORIZATION_FAILED: two-phase
            commits are not supported; UNSUPPORTED_VERSION: keeping a prepared transaction is not
            supported, as in Apache Kafka 4.3; INVALID_TRANSACTION_TIMEOUT.
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
        """Return a producer id and epoch, or end the open transaction. The request is valid.

        Raises:
            ApiError: CONCURRENT_TRANSACTIONS, PRODUCER_FENCED, and COORDINATOR_LOAD_IN_PROGRESS
                while no producer id is available.
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
        """Check that a named producer id is the current one, or a previous one whose epochs ran out
        and that missed the response with its replacement.

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
        """The id has not been used, or has expired."""
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
        """The next epoch, or the next producer id; `named` is the epoch that the producer has."""
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
