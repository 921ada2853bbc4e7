"""DeleteGroups (42), versions 0-3: groups without members are deleted, with their offsets.

- A group with members gets the error NON_EMPTY_GROUP. A group that does not exist gets the error
  GROUP_ID_NOT_FOUND.
- Version 3 (Apache Kafka 4.4) adds error messages.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.handlers.handler import Handler
from odradek.wire.generated.delete_groups_request import DeleteGroupsRequest
from odradek.wire.generated.delete_groups_response import DeleteGroupsResponse


async def handle(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Delete the groups; the response has one result per group."""
    group_ids = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=await broker.groups.delete_groups(group_ids))


HANDLER = Handler(request=DeleteGroupsRequest, versions=(0, 3), handle=handle)
