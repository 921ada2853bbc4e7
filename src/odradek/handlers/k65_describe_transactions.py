"""DescribeTransactions (65), version 0: the state of transactional ids (KIP-664)."""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import (
    TOPIC,
    TRANSACTIONAL_ID,
    AclOperation,
    denied,
    permits,
)
from odradek.handlers.handler import Handler
from odradek.handlers.pieces import Pieces
from odradek.model.errors import ErrorCode
from odradek.wire.generated.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.generated.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)


async def handle(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Return one result per transactional id."""
    states = [await _describe(broker, context, each) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


async def _describe(
    broker: Broker, context: RequestContext, transactional_id: str
) -> TransactionState:
    describe = AclOperation.DESCRIBE
    if not permits(broker, context, describe, TRANSACTIONAL_ID, transactional_id):
        return TransactionState(
            transactional_id=transactional_id,
            error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        )
    state: TransactionState = await broker.coordinators.transactions.describe(transactional_id)
    hidden = denied(broker, context, describe, TOPIC, (each.topic for each in state.topics))
    state.topics = [each for each in state.topics if each.topic not in hidden]
    return state


HANDLER = Handler(
    request=DescribeTransactionsRequest,
    handle=handle,
    pieces=Pieces("transactional_ids", "transaction_states", 100),
)
