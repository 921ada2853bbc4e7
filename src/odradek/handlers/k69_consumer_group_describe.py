"""ConsumerGroupDescribe (69), versions 0-1: state, members and assignments of consumer groups.

- A group that does not exist, or is of another type, is GROUP_ID_NOT_FOUND.
- Partitions that a member has to revoke are shown as its own until it has done so.
- Version 1 tells which protocol a member speaks.
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
    """The groups as they are."""
    check_enabled(broker)
    groups = await broker.groups.describe_consumer_groups(request.group_ids)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = operations.ALL_OF_GROUP
    return ConsumerGroupDescribeResponse(groups=groups)


HANDLER = Handler(request=ConsumerGroupDescribeRequest, versions=(0, 1), handle=handle)
