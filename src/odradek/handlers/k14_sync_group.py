"""SyncGroup (14), versions 0-5: the leader sends the assignments, and members get them.

- The response waits until the leader's assignments are stored. If another rebalance begins before
  that, the error is REBALANCE_IN_PROGRESS.
- From version 5 on a request must contain the protocol type and the protocol name of the
  generation. Otherwise the error is INCONSISTENT_GROUP_PROTOCOL.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.shard import Answer
from odradek.handlers.authorization import GROUP, AclOperation, require
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.sync_group_request import SyncGroupRequest

PROTOCOL_VERSION = 5


def handle(broker: Broker, context: RequestContext, request: SyncGroupRequest) -> Answer:
    """Return the member's assignment when it is available."""
    if context.api_version >= PROTOCOL_VERSION and (
        request.protocol_type is None or request.protocol_name is None
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    require(broker, context, AclOperation.READ, GROUP, request.group_id)
    return broker.coordinators.groups.sync(request)


HANDLER = Handler(request=SyncGroupRequest, handle=handle)
