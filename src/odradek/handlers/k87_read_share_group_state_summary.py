"""ReadShareGroupStateSummary (87), versions 0-1: start offsets of share partitions (KIP-932).

The group coordinator sends this request to describe the offsets of a share group. Version 1 has the
number of records after the start offset whose delivery is complete.

Only brokers send this request. It needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.share_apis import READ_SUMMARY
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.read_share_group_state_summary_request import (
    ReadShareGroupStateSummaryRequest,
)
from odradek.wire.generated.read_share_group_state_summary_response import (
    ReadShareGroupStateSummaryResponse,
)


def handle(
    broker: Broker, context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> Awaitable[ReadShareGroupStateSummaryResponse]:
    """Return a result for each share partition."""
    require_cluster(broker, context, AclOperation.CLUSTER_ACTION)
    return broker.coordinators.shares.answer(READ_SUMMARY, request)


HANDLER = Handler(request=ReadShareGroupStateSummaryRequest, handle=handle)
