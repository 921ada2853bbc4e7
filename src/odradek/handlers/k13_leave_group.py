"""LeaveGroup (13), versions 0-5: members leave a classic group, or are removed.

- From version 3 on a request has many members, each with its own error; a member with an empty
  member id is identified by its instance id.
- Before version 3 there is one member, whose error is that of the response.
"""

from __future__ import annotations

import asyncio

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
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
        answer = broker.groups.leave(request)
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
    # The group does not exist, so none of the members does.
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


HANDLER = Handler(request=LeaveGroupRequest, versions=(0, 5), handle=handle)
