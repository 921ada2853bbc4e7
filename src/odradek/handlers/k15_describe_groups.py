"""DescribeGroups (15), versions 0-6: state, members and assignments of classic groups.

- A group that does not exist has the state Dead, and from version 6 on the error
  GROUP_ID_NOT_FOUND.
- The metadata of members is included only if the group is stable.
"""

from __future__ import annotations

from functools import partial

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.group_descriptions import described
from odradek.handlers.handler import Handler
from odradek.handlers.pieces import Pieces
from odradek.wire.generated.describe_groups_request import DescribeGroupsRequest
from odradek.wire.generated.describe_groups_response import DescribedGroup, DescribeGroupsResponse


async def handle(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Describe the groups."""
    groups = await described(
        broker,
        context,
        request.groups,
        partial(broker.coordinators.groups.describe_groups, context),
        DescribedGroup,
        with_operations=request.include_authorized_operations,
    )
    return DescribeGroupsResponse(groups=groups)


HANDLER = Handler(
    request=DescribeGroupsRequest,
    handle=handle,
    pieces=Pieces("groups", "groups", 100),
)
