"""Rebalances of classic groups.

A rebalance has these steps:

1. It begins when a member joins, leaves or is removed, when a member joins again with other
   protocols or another subscription, or when the leader joins again.
2. The group waits until all members have sent JoinGroup (the join phase).
3. A new generation begins, and all members get the response to JoinGroup.
4. All members must send SyncGroup within the rebalance timeout (the sync phase). When the leader's
   assignment is stored, the group is stable, and the members get their assignments.
"""

from __future__ import annotations

from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.group.classic import keys
from odradek.core.group.classic.answers import join_failed
from odradek.core.group.classic.group import ClassicGroup, ClassicState
from odradek.core.group.classic.member import NO_ASSIGNMENT, ClassicMember
from odradek.core.group.state import GroupState
from odradek.model.errors import ErrorCode
from odradek.wire.generated.sync_group_response import SyncGroupResponse

EMPTY = ClassicState.EMPTY
PREPARING = ClassicState.PREPARING_REBALANCE
COMPLETING = ClassicState.COMPLETING_REBALANCE
STABLE = ClassicState.STABLE
DEAD = ClassicState.DEAD

Result = CoordinatorResult[None]


class Rebalance:
    """Begins, continues and ends rebalances."""

    def __init__(self, state: GroupState) -> None:
        self._state = state

    def find(self, group_id: str) -> ClassicGroup | None:
        """Return the classic group with this id; None if it does not exist."""
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # -- sessions -----------------------------------------------------------------------------

    def expect_heartbeat(
        self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
    ) -> None:
        """Start or restart the session timeout of a member."""
        self._state.timers.schedule(
            keys.session(group.group_id, member.member_id),
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
            self.expire_session,
            group.group_id,
            member.member_id,
        )

    def expire_session(self, group_id: str, member_id: str) -> Result:
        """Remove a member that sent no heartbeat within its session timeout."""
        group = self.find(group_id)
        if group is None or group.state is DEAD:
            return NOTHING
        if member_id in group.pending_join:
            self._state.note(group_id, f"{member_id} did not join within its session timeout")
            group.remove(member_id)
            if group.state is PREPARING and group.has_all_joined:
                return self.complete_join(group)
            return NOTHING
        member = group.members.get(member_id)
        if member is None or member.is_excused:
            return NOTHING
        self._state.note(group_id, f"{member_id} sent no heartbeat in time")
        self.dismiss(group, member)
        if group.state in (STABLE, COMPLETING):
            return self.prepare_or_complete(group, f"the session of {member_id} expired")
        if group.state is PREPARING and group.has_all_joined:
            return self.complete_join(group)
        return NOTHING

    def dismiss(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member. If its JoinGroup waits, send the error UNKNOWN_MEMBER_ID."""
        response = join_failed(ErrorCode.UNKNOWN_MEMBER_ID)
        group.answer_join(member, response, self._state.effects)
        group.remove(member.member_id)

    # -- begin --------------------------------------------------------------------------------

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> Result:
        """Begin a rebalance after a change, or complete the current one if all members have
        joined."""
        if group.can_rebalance:
            return self.prepare(group, reason)
        return self.complete_if_all_joined(group)

    def prepare(self, group: ClassicGroup, reason: str) -> Result:
        """Begin a rebalance.

        If the group is empty, it first waits `group.initial.rebalance.delay.ms` for more members
        (KIP-134).
        """
        state = self._state
        if group.state is COMPLETING:
            self.reset_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self.forget_pending_sync(group)
        is_initial = group.state is EMPTY
        if is_initial:
            delay_ms = state.config.group_initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._delay(group, delay_ms, remaining_ms)
        group.move_to(PREPARING, state.clock.now_ms())
        state.note(
            group.group_id, f"rebalance begins after generation {group.generation_id}: {reason}"
        )
        if is_initial:
            return NOTHING
        if group.has_all_joined:
            return self.complete_join(group)
        self._schedule_join_end(group)
        return NOTHING

    def _delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        self._state.timers.schedule(
            keys.join(group.group_id),
            delay_ms,
            self.end_initial_delay,
            group.group_id,
            delay_ms,
            remaining_ms,
        )

    def end_initial_delay(self, group_id: str, delay_ms: int, remaining_ms: int) -> Result:
        """Extend the delay while members join, but not beyond the rebalance timeout."""
        group = self.find(group_id)
        if group is None:
            return NOTHING
        if remaining_ms == 0 or not group.extend_initial_delay():
            return self.complete_join(group)
        next_delay_ms = min(self._state.config.group_initial_rebalance_delay_ms, remaining_ms)
        self._delay(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
        return NOTHING

    def _schedule_join_end(self, group: ClassicGroup) -> None:
        self._state.timers.schedule(
            keys.join(group.group_id),
            group.rebalance_timeout_ms,
            self.end_join,
            group.group_id,
        )

    # -- members have joined ------------------------------------------------------------------

    def complete_if_all_joined(self, group: ClassicGroup) -> Result:
        """Complete the join phase if all members have joined. Do not shorten an initial delay."""
        if (
            group.state is not PREPARING
            or group.previous_state is EMPTY
            or not group.has_all_joined
        ):
            return NOTHING
        return self.complete_join(group)

    def end_join(self, group_id: str) -> Result:
        """End the join phase, because the rebalance timeout has passed."""
        group = self.find(group_id)
        return NOTHING if group is None else self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> Result:
        """Remove the members that have not joined, and begin the next generation with the others.

        Static members that have not joined stay in the group until their session expires. If no
        member has joined, the join phase is repeated.
        """
        timers = self._state.timers
        timers.cancel(keys.join(group.group_id))
        missing = [
            each
            for each in group.members.values()
            if each.join_ticket is None and not each.is_static
        ]
        for member in missing:
            group.remove(member.member_id)
            group.cancel_session(member.member_id, timers)
        if missing:
            names = ", ".join(each.member_id for each in missing)
            self._state.note(group.group_id, f"members did not join in time: {names}")
        if group.state is DEAD:
            return NOTHING
        if not group.elect_joined_leader() and group.members:
            self._state.note(group.group_id, "no member has joined; waiting for sessions to expire")
            self._schedule_join_end(group)
            return NOTHING
        group.begin_generation(self._state.clock.now_ms())
        if group.state is EMPTY:
            self._state.note(group.group_id, f"generation {group.generation_id}: no members")
            return CoordinatorResult((group.record({}),), None, replay=False)
        self._announce_generation(group)
        return NOTHING

    def _announce_generation(self, group: ClassicGroup) -> None:
        self._state.note(
            group.group_id, f"generation {group.generation_id}: {len(group.members)} members"
        )
        for member in group.members.values():
            is_leader = group.is_leader(member.member_id)
            response = group.join_response(member.member_id, with_members=is_leader)
            group.answer_join(member, response, self._state.effects)
            self.expect_heartbeat(group, member)
            member.enter_generation()
            group.pending_sync[member.member_id] = None
        self._state.timers.schedule(
            keys.sync(group.group_id),
            group.rebalance_timeout_ms,
            self.end_sync,
            group.group_id,
            group.generation_id,
        )

    # -- sync phase ---------------------------------------------------------------------------

    def forget_pending_sync(self, group: ClassicGroup) -> None:
        """End the sync phase."""
        group.pending_sync.clear()
        self._state.timers.cancel(keys.sync(group.group_id))

    def on_synced(self, group: ClassicGroup, member_id: str) -> None:
        """Record that the member has sent SyncGroup."""
        group.pending_sync.pop(member_id, None)
        if not group.pending_sync:
            self._state.timers.cancel(keys.sync(group.group_id))

    def end_sync(self, group_id: str, generation_id: int) -> Result:
        """Remove the members that have not sent SyncGroup within the rebalance timeout."""
        group = self.find(group_id)
        if group is None or group.generation_id != generation_id:
            return NOTHING
        if group.state not in (COMPLETING, STABLE) or not group.pending_sync:
            return NOTHING
        missing = list(group.pending_sync)
        for member_id in missing:
            group.remove(member_id)
            group.cancel_session(member_id, self._state.timers)
        return self.prepare(group, f"members did not send SyncGroup in time: {', '.join(missing)}")

    def reset_assignment(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Drop the assignment. Members that wait for the assignment get the error."""
        assert group.state is COMPLETING, f"{group} is not waiting for an assignment"
        for member in group.members.values():
            member.assign(NO_ASSIGNMENT)
        self.hand_out(group, error)

    def hand_out(self, group: ClassicGroup, error: ErrorCode = ErrorCode.NONE) -> None:
        """Send the assignment to all members that wait for it."""
        failed = error is not ErrorCode.NONE
        for member in group.members.values():
            response = SyncGroupResponse(
                error_code=error,
                protocol_type=None if failed else group.protocol_type,
                protocol_name=None if failed else group.protocol_name,
                assignment=member.assignment,
            )
            if group.answer_sync(member, response, self._state.effects):
                # While the member waited, its session could not expire. So restart the timeout.
                self.expect_heartbeat(group, member)

    # -- the end ------------------------------------------------------------------------------

    def unload(self, group: ClassicGroup) -> None:
        """Send NOT_COORDINATOR to all waiting requests: another broker is the coordinator now."""
        group.move_to(DEAD, self._state.clock.now_ms())
        error = ErrorCode.NOT_COORDINATOR
        effects = self._state.effects
        for member in group.members.values():
            group.answer_join(member, join_failed(error, member.member_id), effects)
            group.answer_sync(member, SyncGroupResponse(error_code=error), effects)
