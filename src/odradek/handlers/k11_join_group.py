"""JoinGroup (11), versions 0-9: a member joins a classic group and waits until all have.

- A session timeout outside group.min/max.session.timeout.ms is INVALID_SESSION_TIMEOUT.
- From version 4 on a new member gets MEMBER_ID_REQUIRED and its id, and joins again with it.
- Version 5 and up: static members. Version 9 tells a returning static leader to skip the
  assignment.
- Without a protocol, its name is null from version 7 on, and empty before.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.core.group.classic.answers import join_failed
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.join_group_request import JoinGroupRequest
from odradek.wire.generated.join_group_response import JoinGroupResponse

NULL_PROTOCOL_VERSION = 7
_WITH_MEMBER_ID = frozenset((ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT))
"""Errors whose response has the member id of the request, as in Apache Kafka."""


async def handle(
    broker: Broker, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse:
    """Join, and wait for the others."""
    try:
        response: JoinGroupResponse = await broker.groups.join(context, request)
    except ApiError as error:
        member_id = request.member_id if error.code in _WITH_MEMBER_ID else ""
        response = join_failed(error.code, member_id)
    if context.api_version >= NULL_PROTOCOL_VERSION:
        response.protocol_name = response.protocol_name or None
    else:
        response.protocol_name = response.protocol_name or ""
    return response


HANDLER = Handler(request=JoinGroupRequest, versions=(0, 9), handle=handle)
