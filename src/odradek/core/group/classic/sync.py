"""SyncGroup: the leader sends all assignments, and each member gets its own assignment."""

from __future__ import annotations

from functools import partial
from typing import Any

from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.classic.member import NO_ASSIGNMENT
from odradek.core.group.classic.rebalance import COMPLETING, DEAD, PREPARING, STABLE, Rebalance
from odradek.core.group.group import GroupType
from odradek.core.group.state import GroupState
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.sync_group_request import SyncGroupRequest
from odradek.wire.generated.sync_group_response import SyncGroupResponse

Result = CoordinatorResult[None]


class Sync:
    """Decides on SyncGroup."""

    def __init__(self, state: GroupState, rebalance: Rebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, ticket: Any) -> Result:
        """Process SyncGroup.

        The response is sent to `ticket` when the leader's assignment is stored.
        """
        member_id = request.member_id
        try:
            self._validate(group, request)
        except ApiError as error:
            self._state.effects.answer(ticket, SyncGroupResponse(error_code=error.code))
            return NOTHING
        if group.state is STABLE:
            self._rebalance.on_synced(group, member_id)
            response = SyncGroupResponse(
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                assignment=group.members[member_id].assignment,
            )
            self._state.effects.answer(ticket, response)
            return NOTHING
        assert group.state is COMPLETING, f"{group} has members"
        member = group.members[member_id]
        if member.sync_ticket is not None:
            # The client has sent its request again, and ignores the response to the first request.
            self._state.effects.answer(
                member.sync_ticket, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            )
        member.set_sync_ticket(ticket)
        self._rebalance.on_synced(group, member_id)
        if group.is_leader(member_id):
            return self._store(group, request)
        return NOTHING

    def _validate(self, group: ClassicGroup, request: SyncGroupRequest) -> None:
        if group.state is DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if _differs(request.protocol_type, group.protocol_type) or _differs(
            request.protocol_name, group.protocol_name
        ):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is PREPARING:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def _store(self, group: ClassicGroup, request: SyncGroupRequest) -> Result:
        """Write the leader's assignment. Members without an assignment get an empty assignment."""
        given = {each.member_id: each.assignment for each in request.assignments}
        assignment = {each: given.get(each, NO_ASSIGNMENT) for each in group.members}
        missing = [each for each in group.members if each not in given]
        if missing:
            self._state.note(group.group_id, f"the leader assigned nothing to {', '.join(missing)}")
        return CoordinatorResult(
            (group.record(assignment),),
            None,
            replay=False,
            on_commit=partial(self._on_stored, group, group.generation_id, assignment),
        )

    def _on_stored(
        self,
        group: ClassicGroup,
        generation_id: int,
        assignment: dict[str, bytes],
        error: ApiError | None,
    ) -> None:
        """Send the assignment to the members, unless another rebalance has begun."""
        if group.state is not COMPLETING or group.generation_id != generation_id:
            return
        if error is not None:
            self._rebalance.reset_assignment(group, error.code)
            # The group has members, so this writes no records.
            self._rebalance.prepare_or_complete(
                group, f"the assignment could not be stored: {error.code.name}"
            )
            return
        for member in group.members.values():
            member.assign(assignment.get(member.member_id, NO_ASSIGNMENT))
        self._rebalance.hand_out(group)
        group.move_to(STABLE, self._state.clock.now_ms())
        self._state.rebalances[GroupType.CLASSIC] += 1


def _differs(claimed: str | None, actual: str | None) -> bool:
    """Return whether the protocol type or name differs. Older clients send neither."""
    return claimed is not None and actual is not None and claimed != actual
