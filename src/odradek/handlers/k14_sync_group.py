"""SyncGroup (14), versions 0-5: the leader sends the assignment, and members get theirs.

- Waits until the leader's assignment is stored; REBALANCE_IN_PROGRESS if that does not happen.
- From version 5 on protocol type and name are required, and INCONSISTENT_GROUP_PROTOCOL if they
  are missing or not those of the generation.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.coordinator.shard import Answer
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
    return broker.groups.sync(request)


HANDLER = Handler(request=SyncGroupRequest, versions=(0, 5), handle=handle)
