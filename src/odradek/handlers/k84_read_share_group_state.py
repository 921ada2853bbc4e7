"""ReadShareGroupState (84), version 0: return the state of share partitions (KIP-932).

The leader of a partition sends this request before it serves the share partition. From then on,
writes of earlier leaders are fenced.

Only brokers send this request. It needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.share_apis import READ
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.read_share_group_state_request import ReadShareGroupStateRequest
from odradek.wire.generated.read_share_group_state_response import ReadShareGroupStateResponse


def handle(
    broker: Broker, context: RequestContext, request: ReadShareGroupStateRequest
) -> Awaitable[ReadShareGroupStateResponse]:
    """Return a result for each share partition."""
    require_cluster(broker, context, AclOperation.CLUSTER_ACTION)
    return broker.coordinators.shares.answer(READ, request)


HANDLER = Handler(request=ReadShareGroupStateRequest, handle=handle)
