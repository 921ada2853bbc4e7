"""Heartbeat (12), versions 0-4: a member keeps its session, and learns when it must rejoin.

- REBALANCE_IN_PROGRESS means that the member must rejoin. ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID and
  FENCED_INSTANCE_ID mean that the client is no longer a member of this generation.
- While the group's partition is loading, a heartbeat succeeds without a check.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.shard import Answer
from odradek.handlers.authorization import GROUP, AclOperation, require
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse


def handle(broker: Broker, context: RequestContext, request: HeartbeatRequest) -> Answer:
    """Restart the member's session timeout."""
    require(broker, context, AclOperation.READ, GROUP, request.group_id)
    return broker.coordinators.groups.heartbeat(request)


def _error_response(request: HeartbeatRequest, error: ApiError) -> HeartbeatResponse:
    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=error.code)


HANDLER = Handler(request=HeartbeatRequest, handle=handle, error_response=_error_response)
