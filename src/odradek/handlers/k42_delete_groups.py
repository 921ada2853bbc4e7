"""DeleteGroups (42), versions 0-3: groups without members are deleted, with their offsets.

- A group with members gets the error NON_EMPTY_GROUP. A group that does not exist gets the error
  GROUP_ID_NOT_FOUND.
- Version 3 (Apache Kafka 4.4) adds error messages.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import GROUP, AclOperation, denied
from odradek.handlers.handler import Handler
from odradek.model.errors import ErrorCode
from odradek.wire.generated.delete_groups_request import DeleteGroupsRequest
from odradek.wire.generated.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse


async def handle(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Delete the groups; the response has one result per group."""
    group_ids = dict.fromkeys(request.groups_names)
    refused = denied(broker, context, AclOperation.DELETE, GROUP, group_ids)
    allowed = dict.fromkeys(each for each in group_ids if each not in refused)
    results = await broker.coordinators.groups.delete_groups(allowed)
    failed = [
        DeletableGroupResult(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for each in group_ids
        if each in refused
    ]
    return DeleteGroupsResponse(results=[*results, *failed])


HANDLER = Handler(request=DeleteGroupsRequest, handle=handle)
