"""Allocates blocks of producer ids. Each id is used once in the lifetime of the cluster."""

from __future__ import annotations

from odradek.core.controller.state import ControllerState, Decision
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.generated.allocate_producer_ids_response import AllocateProducerIdsResponse
from odradek.wire.generated.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE = 1000
_PRODUCER_ID_MAX = 2**63 - 1


def allocate_producer_ids(
    state: ControllerState, request: AllocateProducerIdsRequest, version: int
) -> Decision[AllocateProducerIdsResponse]:
    """Allocate the next block of ids to the broker.

    Raises:
        ApiError: STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR if all ids are used.
    """
    state.check_broker_epoch(request.broker_id, request.broker_epoch)
    first = max(state.image.next_producer_id, 0)
    if first > _PRODUCER_ID_MAX - BLOCK_SIZE:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used")
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    assert record.next_producer_id > state.image.next_producer_id, "an id is given once"
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return Decision([record], response)
