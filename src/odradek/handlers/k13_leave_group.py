"""LeaveGroup (13), versions 0-5: members leave a classic group, or are removed from it.

- Before version 3 a request has one member. The error of the member is the error of the response.
- From version 3 on a request has many members, and the response has an error for each member. If a
  member id is empty, the instance id identifies the member.
"""

from __future__ import annotations

import asyncio

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import GROUP, AclOperation, require
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.generated.leave_group_response import LeaveGroupResponse, MemberResponse

MANY_MEMBERS_VERSION = 3


async def handle(
    broker: Broker, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse:
    """Remove the members."""
    if context.api_version < MANY_MEMBERS_VERSION:
        request.members = [MemberIdentity(member_id=request.member_id)]
    try:
        require(broker, context, AclOperation.READ, GROUP, request.group_id)
        answer = broker.coordinators.groups.leave(request)
        response = await answer if isinstance(answer, asyncio.Future) else answer
    except ApiError as error:
        response = _failed(request, error.code)
    if context.api_version < MANY_MEMBERS_VERSION:
        if response.error_code == ErrorCode.NONE:
            response.error_code = response.members[0].error_code
        response.members = []
    assert isinstance(response, LeaveGroupResponse)
    return response


def _failed(request: LeaveGroupRequest, error: ErrorCode) -> LeaveGroupResponse:
    if error is not ErrorCode.UNKNOWN_MEMBER_ID:
        return LeaveGroupResponse(error_code=error)
    # The group does not exist, so each member gets the error.
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=error,
            )
            for each in request.members
        ]
    )


HANDLER = Handler(request=LeaveGroupRequest, handle=handle)
