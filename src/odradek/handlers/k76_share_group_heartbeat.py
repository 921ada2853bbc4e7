"""ShareGroupHeartbeat (76), version 1: a member of a share group joins, gets partitions, leaves.

- With member epoch 0 a member joins the group, and with -1 a member leaves the group. Members
  choose their own member id.
- After the errors FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID a member must join again.
- The error is UNSUPPORTED_VERSION if the level of the feature share.version is 0.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import GROUP, TOPIC, AclOperation, denied, require
from odradek.handlers.handler import Handler
from odradek.handlers.share_groups import check_enabled
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse


def handle(
    broker: Broker, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> Awaitable[ShareGroupHeartbeatResponse]:
    """Return the member's epoch, and the member's assignment if it has changed."""
    check_enabled(broker)
    require(broker, context, AclOperation.READ, GROUP, request.group_id)
    names = request.subscribed_topic_names or ()
    if denied(broker, context, AclOperation.DESCRIBE, TOPIC, names):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return broker.coordinators.share_groups.heartbeat(context, request)


HANDLER = Handler(request=ShareGroupHeartbeatRequest, handle=handle)
