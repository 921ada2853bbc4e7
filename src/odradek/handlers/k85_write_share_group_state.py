"""WriteShareGroupState (85), versions 0-1: change the state of share partitions (KIP-932).

The leader of a partition sends this request when the delivery state of records has changed. Version
1 has the number of records after the start offset whose delivery is complete.

Only brokers send this request. It needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.share_apis import WRITE
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.write_share_group_state_request import WriteShareGroupStateRequest
from odradek.wire.generated.write_share_group_state_response import WriteShareGroupStateResponse


def handle(
    broker: Broker, context: RequestContext, request: WriteShareGroupStateRequest
) -> Awaitable[WriteShareGroupStateResponse]:
    """Return a result for each share partition."""
    require_cluster(broker, context, AclOperation.CLUSTER_ACTION)
    return broker.coordinators.shares.answer(WRITE, request)


HANDLER = Handler(request=WriteShareGroupStateRequest, handle=handle)
