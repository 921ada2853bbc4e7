"""Error responses of JoinGroup."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.wire.generated.join_group_response import JoinGroupResponse


def join_failed(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """Return an error response.

    `member_id` is the member id that the client must use in its next request. If it is empty, the
    client must join without a member id.
    """
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)
