"""DescribeGroups (15), versions 0-6: state, members and assignments of classic groups.

- A group that does not exist has the state Dead, and from version 6 on the error
  GROUP_ID_NOT_FOUND.
- The metadata of members is included only if the group is stable.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.handlers.authorization import GROUP, AclOperation, authorized_operations, denied
from odradek.handlers.handler import Handler
from odradek.model.errors import ErrorCode
from odradek.wire.generated.describe_groups_request import DescribeGroupsRequest
from odradek.wire.generated.describe_groups_response import DescribedGroup, DescribeGroupsResponse


async def handle(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Describe the groups."""
    refused = denied(broker, context, AclOperation.DESCRIBE, GROUP, request.groups)
    allowed = [each for each in request.groups if each not in refused]
    groups = await broker.groups.describe_groups(context, allowed)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    broker, context, GROUP, group.group_id
                )
    failed = [
        DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for each in request.groups
        if each in refused
    ]
    return DescribeGroupsResponse(groups=[*failed, *groups])


HANDLER = Handler(request=DescribeGroupsRequest, versions=(0, 6), handle=handle)
