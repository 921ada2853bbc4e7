"""Error responses of JoinGroup."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.wire.generated.join_group_response import JoinGroupResponse


def join_failed(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """Return an error response.

    `member_id`: the id to use in the next request; empty for a new id.
    """
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)
