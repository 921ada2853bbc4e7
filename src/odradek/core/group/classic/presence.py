"""Heartbeat and LeaveGroup."""

from __future__ import annotations

from odradek.core.coordinator.result import NO_RECORDS, NOTHING, CoordinatorResult
from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.classic.rebalance import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    Rebalance,
)
from odradek.core.group.state import GroupState
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse
from odradek.wire.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.generated.leave_group_response import LeaveGroupResponse, MemberResponse


class Presence:
    """Decides on Heartbeat and LeaveGroup."""

    def __init__(self, state: GroupState, rebalance: Rebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    def heartbeat(
        self, group: ClassicGroup, request: HeartbeatRequest
    ) -> CoordinatorResult[HeartbeatResponse]:
        """Process a heartbeat.

        The response has the error REBALANCE_IN_PROGRESS if the member must rejoin.

        Raises:
            ApiError: the member is unknown, or is in another generation.
        """
        state = group.state
        if state is DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member_id = request.member_id
        group.validate_member(member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if state is EMPTY:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._rebalance.expect_heartbeat(group, group.members[member_id])
        error = ErrorCode.REBALANCE_IN_PROGRESS if state is PREPARING else ErrorCode.NONE
        return CoordinatorResult(NO_RECORDS, HeartbeatResponse(error_code=error))

    def leave(
        self, group: ClassicGroup, request: LeaveGroupRequest
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove the members in the request. A member leaves, or an administrator removes it."""
        if group.state is DEAD:
            response = LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return CoordinatorResult(NO_RECORDS, response)
        answers = [
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=self._leave_one(group, each),
            )
            for each in request.members
        ]
        gone = [each.member_id for each in answers if each.error_code == ErrorCode.NONE]
        result: CoordinatorResult[None] = NOTHING
        if gone:
            if group.state in (STABLE, COMPLETING):
                reason = f"left: {', '.join(gone)}"
                result = self._rebalance.prepare_or_complete(group, reason)
            elif group.state is PREPARING:
                result = self._rebalance.complete_if_all_joined(group)
        return CoordinatorResult(
            result.records,
            LeaveGroupResponse(members=answers),
            replay=result.replay,
            on_commit=result.on_commit,
        )

    def _leave_one(self, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
        """Remove one member. If the member id is empty, the instance id identifies the member."""
        member_id = identity.member_id
        instance_id = identity.group_instance_id
        if not member_id:
            owner = None if instance_id is None else group.static_members.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._dismiss(group, owner, identity.reason)
            return ErrorCode.NONE
        if member_id in group.pending_join:
            group.remove(member_id)
            group.cancel_session(member_id, self._state.timers)
            return ErrorCode.NONE
        try:
            group.validate_member(member_id, instance_id)
        except ApiError as error:
            return error.code
        self._dismiss(group, member_id, identity.reason)
        return ErrorCode.NONE

    def _dismiss(self, group: ClassicGroup, member_id: str, reason: str | None) -> None:
        group.cancel_session(member_id, self._state.timers)
        self._state.note(
            group.group_id, f"{member_id} leaves; its reason: {reason or 'not provided'}"
        )
        self._rebalance.dismiss(group, group.members[member_id])
