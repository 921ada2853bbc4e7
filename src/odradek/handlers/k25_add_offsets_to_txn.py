"""AddOffsetsToTxn (25), versions 0-4: the offsets of a group are added to a transaction.

- The group's partition of `__consumer_offsets` is added to the transaction. Later the producer
  commits offsets with TxnOffsetCommit.
- A fenced producer gets the error PRODUCER_FENCED (before version 2: INVALID_PRODUCER_EPOCH).
"""

from __future__ import annotations

from functools import partial

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import GROUP, TRANSACTIONAL_ID, AclOperation, require
from odradek.handlers.handler import Handler
from odradek.handlers.transactions import answered, error_for
from odradek.model.errors import ApiError
from odradek.model.topic_name import OFFSETS_TOPIC
from odradek.wire.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.generated.add_offsets_to_txn_response import AddOffsetsToTxnResponse

FENCED_VERSION = 2


async def handle(
    broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Add the group's partition. Only clients with transaction protocol 1 send this request."""
    require(broker, context, AclOperation.WRITE, TRANSACTIONAL_ID, request.transactional_id)
    require(broker, context, AclOperation.READ, GROUP, request.group_id)
    index = broker.coordinators.groups.partition_for(request.group_id)
    refused: AddOffsetsToTxnResponse | None = await answered(
        broker.coordinators.transactions.add_partitions,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        {OFFSETS_TOPIC: frozenset((index,))},
        0,
        refused=partial(_refused, context.api_version),
    )
    return refused or AddOffsetsToTxnResponse()


def _refused(api_version: int, error: ApiError) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error_for(error, api_version, FENCED_VERSION))


HANDLER = Handler(request=AddOffsetsToTxnRequest, handle=handle)
