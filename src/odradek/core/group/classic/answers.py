"""Refusals of JoinGroup."""

from __future__ import annotations

from odradek.model.errors import ErrorCode
from odradek.wire.generated.join_group_response import JoinGroupResponse


def join_failed(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """`member_id` is the one to come back with; empty to start again."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)
