"""ListTransactions (66), versions 0-2: the transactional ids that this broker coordinates.

- A request can filter by states and by producer ids. The response contains the requested states
  that do not exist. From version 1 on a request can filter by the duration of the transaction
  (KIP-994). From version 2 on a request can contain a regular expression that must match the whole
  transactional id (KIP-1152).
- The regular expression has the syntax of RE2, because the matching time of RE2 is limited. Apache
  Kafka uses Java's syntax. If the expression is invalid or would take seconds, the error is
  INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.core.group.consumer.regex import CostlyRegex, InvalidRegex, Regex
from odradek.core.transaction.listing import Filter
from odradek.core.transaction.phases import BY_LABEL
from odradek.env.executor import call
from odradek.handlers.authorization import TRANSACTIONAL_ID, AclOperation, denied
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.list_transactions_request import ListTransactionsRequest
from odradek.wire.generated.list_transactions_response import (
    ListTransactionsResponse,
    TransactionState,
)


async def handle(
    broker: Broker, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """Return the transactional ids that pass all filters."""
    names = request.state_filters
    phases = {BY_LABEL[name] for name in names if name in BY_LABEL} if names else None
    wanted = Filter(frozenset(request.producer_id_filters), phases, request.duration_filter)
    found = await broker.coordinators.transactions.list(wanted)
    if request.transactional_id_pattern:
        pattern, unmatched = request.transactional_id_pattern, found
        found = await call(broker.executor, lambda: _matching(pattern, unmatched))
    ids = [each.transactional_id for each in found]
    refused = denied(broker, context, AclOperation.DESCRIBE, TRANSACTIONAL_ID, ids)
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in names if name not in BY_LABEL],
        transaction_states=[each for each in found if each.transactional_id not in refused],
    )


def _matching(pattern: str, found: Sequence[TransactionState]) -> list[TransactionState]:
    """Return the transactions whose transactional id matches the pattern.

    Raises:
        ApiError: INVALID_REGULAR_EXPRESSION.
    """
    try:
        regex = Regex(pattern)
        return [each for each in found if regex.matches(each.transactional_id)]
    except (InvalidRegex, CostlyRegex) as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"the pattern of transactional ids: {error}"
        ) from None


HANDLER = Handler(request=ListTransactionsRequest, handle=handle)
