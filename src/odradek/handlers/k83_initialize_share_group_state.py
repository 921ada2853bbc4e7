"""InitializeShareGroupState (83), version 0: begin the state of share partitions (KIP-932).

The group coordinator sends this request before it assigns the partitions to members of a share
group, and when an administrator changes the start offsets.

Only brokers send this request. It needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.share_apis import INITIALIZE
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
)
from odradek.wire.generated.initialize_share_group_state_response import (
    InitializeShareGroupStateResponse,
)


def handle(
    broker: Broker, context: RequestContext, request: InitializeShareGroupStateRequest
) -> Awaitable[InitializeShareGroupStateResponse]:
    """Return a result for each share partition."""
    require_cluster(broker, context, AclOperation.CLUSTER_ACTION)
    return broker.coordinators.shares.answer(INITIALIZE, request)


HANDLER = Handler(request=InitializeShareGroupStateRequest, handle=handle)
