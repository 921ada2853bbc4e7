"""ConsumerGroupDescribe (69), versions 0-1: state, members and assignments of consumer groups.

- If a group does not exist or has another type, the error is GROUP_ID_NOT_FOUND.
- The assignment of a member also contains the partitions that the member must still revoke.
- Version 1 adds the type of each member: whether it uses the classic or the consumer protocol.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.handlers.handler import Handler
from odradek.handlers.k68_consumer_group_heartbeat import check_enabled
from odradek.model import operations
from odradek.model.errors import ErrorCode
from odradek.wire.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from odradek.wire.generated.consumer_group_describe_response import ConsumerGroupDescribeResponse


async def handle(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe the groups."""
    check_enabled(broker)
    groups = await broker.groups.describe_consumer_groups(request.group_ids)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = operations.ALL_OF_GROUP
    return ConsumerGroupDescribeResponse(groups=groups)


HANDLER = Handler(request=ConsumerGroupDescribeRequest, versions=(0, 1), handle=handle)
