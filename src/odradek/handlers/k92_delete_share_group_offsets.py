"""DeleteShareGroupOffsets (92), version 0: delete the start offsets of a share group's topics.

The group must have no members. If it subscribes to a deleted topic again, `share.auto.offset.reset`
determines the start offset.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import GROUP, TOPIC, AclOperation, denied, require
from odradek.handlers.handler import Handler
from odradek.handlers.share_groups import check_enabled
from odradek.model.errors import ErrorCode
from odradek.wire.generated.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
)
from odradek.wire.generated.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Return a result for each topic."""
    check_enabled(broker)
    require(broker, context, AclOperation.DELETE, GROUP, request.group_id)
    names = [each.topic_name for each in request.topics]
    refused = denied(broker, context, AclOperation.READ, TOPIC, names)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    failed = [
        DeleteShareGroupOffsetsResponseTopic(
            topic_name=each, error_code=code, error_message=code.message
        )
        for each in names
        if each in refused
    ]
    allowed = DeleteShareGroupOffsetsRequest(
        group_id=request.group_id,
        topics=[each for each in request.topics if each.topic_name not in refused],
    )
    response = await broker.coordinators.share_groups.delete_offsets(allowed)
    response.responses[:0] = failed
    return response


HANDLER = Handler(request=DeleteShareGroupOffsetsRequest, handle=handle)
