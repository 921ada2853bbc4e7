"""DescribeTransactions (65), version 0: the state of transactional ids (KIP-664)."""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.handlers.handler import Handler
from odradek.wire.generated.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.generated.describe_transactions_response import DescribeTransactionsResponse


async def handle(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Return one result per transactional id."""
    describe = broker.transactions.describe
    return DescribeTransactionsResponse(
        transaction_states=[await describe(each) for each in request.transactional_ids]
    )


HANDLER = Handler(request=DescribeTransactionsRequest, versions=(0, 0), handle=handle)
