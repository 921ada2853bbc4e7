"""JoinGroup: decides whether a client becomes a member, and when the response is sent.

Some responses are sent immediately:

- errors;
- a new member id, with which the client must join again;
- the current generation, if the member has not changed and no rebalance is needed.

Other responses are sent when the join phase has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.group.classic import keys
from odradek.core.group.classic.answers import join_failed
from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.classic.member import ClassicMember, Protocols
from odradek.core.group.classic.rebalance import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    Rebalance,
    Result,
)
from odradek.core.group.group import Requester
from odradek.core.group.records import group_metadata
from odradek.core.group.state import GroupState
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.join_group_request import JoinGroupRequest

KNOWN_MEMBER_ID_VERSION = 4
"""From this version on, a new member without an instance id must join a second time, with its new
member id (KIP-394)."""
SKIP_ASSIGNMENT_VERSION = 9
"""From this version on, the response has the field skip_assignment. It is True for a static leader
that joins again in a stable group (KIP-814)."""
NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""A member whose first JoinGroup waits longer than this is removed (as in Apache Kafka)."""


class Joining:
    """One JoinGroup: the request, its sender, and the ticket of its response."""

    __slots__ = ("protocols", "reason", "request", "requester", "ticket")

    def __init__(self, request: JoinGroupRequest, requester: Requester, ticket: Any) -> None:
        self.request = request
        self.requester = requester
        self.ticket = ticket
        self.protocols: Protocols = tuple((each.name, each.metadata) for each in request.protocols)
        self.reason = request.reason or "not provided"

    @property
    def rebalance_timeout_ms(self) -> int:
        """The rebalance timeout. In version 0 it is the same as the session timeout."""
        if self.requester.api_version == 0:
            return self.request.session_timeout_ms
        return self.request.rebalance_timeout_ms


class Join:
    """Decides on JoinGroup for classic groups, new groups, and consumer groups without members."""

    def __init__(self, state: GroupState, rebalance: Rebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    def join(
        self,
        request: JoinGroupRequest,
        requester: Requester,
        ticket: Any,
        tombstones: Sequence[CoordinatorRecord] = (),
    ) -> Result:
        """Process JoinGroup. The response is sent to `ticket`.

        `tombstones` are the records that delete an empty consumer group, which the new group
        replaces.

        Raises:
            ApiError: UNKNOWN_SERVER_ERROR: the request has an instance id, but its member id was
                given to a client without an instance id.
        """
        joining = Joining(request, requester, ticket)
        group_id = request.group_id
        is_new_member = not request.member_id
        group = self._rebalance.find(group_id)
        is_new_group = group is None
        if group is None:
            if not is_new_member:
                self._refuse(joining, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
                return NOTHING
            group = ClassicGroup(group_id, self._state.clock.now_ms())
            self._state.journal.put(self._state.groups, group_id, group)
        if not self._has_room(group, request.member_id):
            group.remove(request.member_id)
            self._refuse(joining, ErrorCode.GROUP_MAX_SIZE_REACHED)
            result = NOTHING
        elif is_new_member:
            result = self._join_new(group, joining)
        else:
            result = self._join_existing(group, joining)
        if is_new_group and result is NOTHING:
            # Write a record of the new group, so that the next coordinator has the group too.
            timestamp_ms = group.state_timestamp_ms or -1
            record = group_metadata(group_id, state_timestamp_ms=timestamp_ms)
            return CoordinatorResult(
                (*tombstones, record),
                None,
                replay=False,
                on_commit=partial(self._on_group_stored, joining),
            )
        return result

    def _refuse(self, joining: Joining, error: ErrorCode, member_id: str = "") -> None:
        self._state.effects.answer(joining.ticket, join_failed(error, member_id))

    def _on_group_stored(self, joining: Joining, error: ApiError | None) -> None:
        """Send an error if the record could not be written.

        In this case the journal has already removed the new group.
        """
        if error is not None:
            self._refuse(joining, error.code)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Return whether the member can join without exceeding group.max.size.

        During a rebalance, only members that have joined the rebalance count.
        """
        limit = self._state.config.group_max_size
        if group.state in (EMPTY, DEAD):
            return True
        member = group.members.get(member_id)
        if group.state is PREPARING:
            is_waiting = member is not None and member.join_ticket is not None
            return is_waiting or group.awaiting_join < limit
        return member is not None or len(group.members) < limit

    # -- new members --------------------------------------------------------------------------

    def _join_new(self, group: ClassicGroup, joining: Joining) -> Result:
        request = joining.request
        if group.state is DEAD:
            self._refuse(joining, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return NOTHING
        if not group.supports(request.protocol_type, (name for name, _ in joining.protocols)):
            self._refuse(joining, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return NOTHING
        instance_id = request.group_instance_id
        if instance_id is None:
            member_id = self._state.make_member_id(joining.requester.client_id)
            if joining.requester.api_version >= KNOWN_MEMBER_ID_VERSION:
                self._give_member_id(group, joining, member_id)
                return NOTHING
            return self._add(group, joining, member_id)
        member_id = self._state.make_member_id(instance_id)
        old_id = group.static_members.get(instance_id)
        if old_id is None:
            return self._add(group, joining, member_id)
        return self._replace_static(group, joining, old_id, member_id)

    def _give_member_id(self, group: ClassicGroup, joining: Joining, member_id: str) -> None:
        group.pending_join[member_id] = None
        self._state.timers.schedule(
            keys.session(group.group_id, member_id),
            joining.request.session_timeout_ms,
            self._rebalance.expire_session,
            group.group_id,
            member_id,
        )
        self._refuse(joining, ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _add(self, group: ClassicGroup, joining: Joining, member_id: str) -> Result:
        request = joining.request
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            joining.requester.client_id,
            joining.requester.host,
            joining.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            joining.protocols,
            is_new=True,
        )
        group.add(member, joining.ticket)
        # A new member sends no heartbeats while its JoinGroup waits. So the coordinator cannot
        # detect that the client is lost. After a fixed timeout the member is removed, and the
        # client must join again.
        self._rebalance.expect_heartbeat(group, member, NEW_MEMBER_TIMEOUT_MS)
        return self._rebalance.prepare_or_complete(
            group, f"{member_id} joins; its reason: {joining.reason}"
        )

    # -- members that rejoin ------------------------------------------------------------------

    def _join_existing(self, group: ClassicGroup, joining: Joining) -> Result:
        request = joining.request
        member_id = request.member_id
        if group.state is DEAD:
            self._refuse(joining, ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
            return NOTHING
        if not group.supports(request.protocol_type, (name for name, _ in joining.protocols)):
            self._refuse(joining, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
            return NOTHING
        if member_id in group.pending_join:
            if request.group_instance_id is not None:
                # The coordinator gives pending member ids only to clients without an instance id.
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            return self._add(group, joining, member_id)
        try:
            group.validate_member(member_id, request.group_instance_id)
        except ApiError as error:
            self._refuse(joining, error.code, member_id)
            return NOTHING
        return self._rejoin(group, joining, group.members[member_id])

    def _rejoin(self, group: ClassicGroup, joining: Joining, member: ClassicMember) -> Result:
        """Process JoinGroup of a member. A rebalance begins if it is necessary."""
        member_id = member.member_id
        is_leader = group.is_leader(member_id)
        is_unchanged = joining.protocols == member.protocols
        if group.state is EMPTY:
            self._refuse(joining, ErrorCode.UNKNOWN_MEMBER_ID, member_id)
            return NOTHING
        if group.state is COMPLETING and is_unchanged:
            # The response to the first request may have been lost.
            response = group.join_response(member_id, with_members=is_leader)
            self._state.effects.answer(joining.ticket, response)
            return NOTHING
        if group.state is STABLE and is_unchanged and not is_leader:
            response = group.join_response(member_id, with_members=False)
            self._state.effects.answer(joining.ticket, response)
            return NOTHING
        # If an earlier request of this member waits, the client has timed out and ignores the
        # response to that request.
        abandoned = join_failed(ErrorCode.REBALANCE_IN_PROGRESS, member_id)
        group.answer_join(member, abandoned, self._state.effects)
        # In a stable group the leader rejoins to compute a new assignment.
        group.update(
            member,
            joining.protocols,
            joining.rebalance_timeout_ms,
            joining.request.session_timeout_ms,
            joining.ticket,
        )
        who = "leader" if is_leader else "member"
        return self._rebalance.prepare_or_complete(
            group,
            f"{who} {member_id} joins again in {group.state.value}; its reason: {joining.reason}",
        )

    # -- static members that return -----------------------------------------------------------

    def _replace_static(
        self, group: ClassicGroup, joining: Joining, old_id: str, new_id: str
    ) -> Result:
        """Give a new member id to a static member that joins again (KIP-345)."""
        request = joining.request
        instance_id = request.group_instance_id
        assert instance_id is not None
        old_leader = group.leader_id
        member = group.replace_static(instance_id, old_id, new_id, self._state.effects)
        self._rebalance.expect_heartbeat(group, member)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        group.update(
            member,
            joining.protocols,
            joining.rebalance_timeout_ms,
            request.session_timeout_ms,
            joining.ticket,
        )
        if group.state is STABLE:
            if group.select_protocol() == group.protocol_name:
                replaced = ReplacedStatic(joining, member, old_id, old_leader, before)
                return CoordinatorResult(
                    (group.record(group.assignment),),
                    None,
                    replay=False,
                    on_commit=partial(self._on_replaced, group, replaced),
                )
            return self._rebalance.prepare_or_complete(
                group, f"static member {instance_id} changes the protocol: {joining.reason}"
            )
        if group.state is COMPLETING:
            # The leader's assignment may still contain the old member id.
            return self._rebalance.prepare(
                group, f"static member {instance_id} came back: {joining.reason}"
            )
        assert group.state is PREPARING, f"{group} has members"
        return self._rebalance.complete_if_all_joined(group)

    def _on_replaced(
        self, group: ClassicGroup, replaced: ReplacedStatic, error: ApiError | None
    ) -> None:
        member = replaced.member
        effects = self._state.effects
        if error is not None:
            is_waiting = member.join_ticket is replaced.joining.ticket
            if group.members.get(member.member_id) is member:
                replaced.undo(group, self._state)
                self._rebalance.expect_heartbeat(group, group.members[replaced.old_id])
            if is_waiting:
                self._refuse(replaced.joining, error.code)
            return
        if group.state in (DEAD, PREPARING):
            return  # the response is sent when the rebalance has ended
        is_leader = group.is_leader(member.member_id)
        if replaced.joining.requester.api_version >= SKIP_ASSIGNMENT_VERSION:
            response = group.join_response(member.member_id, with_members=is_leader)
            response.skip_assignment = is_leader
        else:
            # Return the leader's old member id, so that the member does not compute an assignment.
            response = group.join_response(member.member_id, with_members=False)
            response.leader = replaced.old_leader or ""
        group.answer_join(member, response, effects)


class ReplacedStatic:
    """A static member that got a new member id, with its values before this change."""

    __slots__ = ("before", "joining", "member", "old_id", "old_leader")

    def __init__(
        self,
        joining: Joining,
        member: ClassicMember,
        old_id: str,
        old_leader: str | None,
        before: tuple[Protocols, int, int],
    ) -> None:
        self.joining = joining
        self.member = member
        self.old_id = old_id
        self.old_leader = old_leader
        self.before = before

    def undo(self, group: ClassicGroup, state: GroupState) -> None:
        """Restore the old member, because the record could not be written."""
        protocols, rebalance_timeout_ms, session_timeout_ms = self.before
        member = self.member
        group.update(member, protocols, rebalance_timeout_ms, session_timeout_ms, None)
        assert member.group_instance_id is not None
        group.replace_static(member.group_instance_id, member.member_id, self.old_id, state.effects)
