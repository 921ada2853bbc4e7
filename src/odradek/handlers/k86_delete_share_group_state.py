"""DeleteShareGroupState (86), version 0: delete the state of share partitions (KIP-932).

The group coordinator sends this request when a share group or its offsets are deleted.

Only brokers send this request. It needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.share_apis import DELETE
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.delete_share_group_state_request import DeleteShareGroupStateRequest
from odradek.wire.generated.delete_share_group_state_response import DeleteShareGroupStateResponse


def handle(
    broker: Broker, context: RequestContext, request: DeleteShareGroupStateRequest
) -> Awaitable[DeleteShareGroupStateResponse]:
    """Return a result for each share partition."""
    require_cluster(broker, context, AclOperation.CLUSTER_ACTION)
    return broker.coordinators.shares.answer(DELETE, request)


HANDLER = Handler(request=DeleteShareGroupStateRequest, handle=handle)
