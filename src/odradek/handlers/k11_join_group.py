"""JoinGroup (11), versions 0-9: a member joins a classic group and waits for the other members.

- The session timeout must be between group.min.session.timeout.ms and group.max.session.timeout.ms.
  Otherwise the error is INVALID_SESSION_TIMEOUT.
- From version 4 on a new dynamic member gets the error MEMBER_ID_REQUIRED and a member id. It joins
  again with this member id.
- From version 5 on there are static members. In version 9 the response has the field
  `skip_assignment`. If it is true, the leader does not compute an assignment. It is true for a
  static leader that rejoins a stable group.
- If the response has no protocol, the protocol name is null (before version 7: an empty string).
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.core.group.classic.answers import join_failed
from odradek.handlers.authorization import GROUP, AclOperation, require
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.join_group_request import JoinGroupRequest
from odradek.wire.generated.join_group_response import JoinGroupResponse

NULL_PROTOCOL_VERSION = 7
_WITH_MEMBER_ID = frozenset((ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT))
"""Errors whose response contains the member id of the request, as in Apache Kafka."""


async def handle(
    broker: Broker, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse:
    """Join the group and wait for the other members."""
    try:
        require(broker, context, AclOperation.READ, GROUP, request.group_id)
        response: JoinGroupResponse = await broker.coordinators.groups.join(context, request)
    except ApiError as error:
        member_id = request.member_id if error.code in _WITH_MEMBER_ID else ""
        response = join_failed(error.code, member_id)
    if context.api_version >= NULL_PROTOCOL_VERSION:
        response.protocol_name = response.protocol_name or None
    else:
        response.protocol_name = response.protocol_name or ""
    return response


HANDLER = Handler(request=JoinGroupRequest, handle=handle)
