"""EndTxn (26), versions 0-5: a transaction is committed or aborted.

- The response is sent when the decision is committed. The markers are written after that.
- From version 5 on the end of a transaction increases the producer epoch. The response contains the
  new epoch (KIP-890).
- A fenced producer gets the error PRODUCER_FENCED (before version 2: INVALID_PRODUCER_EPOCH).
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Final

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import TRANSACTIONAL_ID, AclOperation, require
from odradek.handlers.handler import Handler
from odradek.handlers.transactions import answered_soon, error_for
from odradek.model.errors import ApiError
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.end_txn_response import EndTxnResponse

FENCED_VERSION: Final = 2
EPOCH_BUMP_REQUEST_VERSION: Final = 5


def handle(
    broker: Broker, context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """Commit or abort the transaction."""
    require(broker, context, AclOperation.WRITE, TRANSACTIONAL_ID, request.transactional_id)
    client_version = 2 if context.api_version >= EPOCH_BUMP_REQUEST_VERSION else 0
    refused = partial(_refused, context.api_version)
    answer: EndTxnResponse | Awaitable[EndTxnResponse] = answered_soon(
        broker.coordinators.transactions.end, request, client_version, refused=refused
    )
    return answer


def _refused(api_version: int, error: ApiError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error_for(error, api_version, FENCED_VERSION))


HANDLER = Handler(request=EndTxnRequest, handle=handle)
