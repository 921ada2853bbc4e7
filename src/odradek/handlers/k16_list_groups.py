"""ListGroups (16), versions 0-5: the groups that this broker coordinates.

- From version 4 on a request can filter by state, from version 5 on by type. Filters ignore case.
- The error is COORDINATOR_LOAD_IN_PROGRESS while some groups are not loaded yet.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import GROUP, AclOperation, permits, permits_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.list_groups_request import ListGroupsRequest
from odradek.wire.generated.list_groups_response import ListGroupsResponse


async def handle(
    broker: Broker, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    """Return the groups that pass the filters."""
    groups = await broker.coordinators.groups.list_groups(
        request.states_filter, request.types_filter
    )
    describe = AclOperation.DESCRIBE
    if not permits_cluster(broker, context, describe, log_denied=False):
        groups = [
            each
            for each in groups
            if permits(broker, context, describe, GROUP, each.group_id, log_denied=False)
        ]
    return ListGroupsResponse(groups=groups)


HANDLER = Handler(request=ListGroupsRequest, handle=handle)
