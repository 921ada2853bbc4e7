"""Processes requests of members that use the classic protocol in a consumer group.

JoinGroup has the same effects as a heartbeat of the consumer protocol. Its response does not wait
for other members. The generation in the response is the member epoch. SyncGroup returns the
assignment. The response to Heartbeat tells the member to rejoin in these cases: there is a new
target assignment, the member must revoke partitions, or all missing partitions of its target have
become free.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NO_RECORDS, NOTHING, CoordinatorResult
from odradek.core.group.classic.answers import join_failed
from odradek.core.group.classic.join import KNOWN_MEMBER_ID_VERSION
from odradek.core.group.consumer import keys
from odradek.core.group.consumer.decider import Decider
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.leaving import static_owner
from odradek.core.group.consumer.member import ConsumerMember, MemberState
from odradek.core.group.consumer_protocol import (
    MalformedSubscription,
    read_subscription,
    write_assignment,
)
from odradek.core.group.group import CONSUMER_PROTOCOL_TYPE, Requester, Visible
from odradek.model import uuids
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.consumer_group_heartbeat_request import TopicPartitions
from odradek.wire.generated.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from odradek.wire.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse
from odradek.wire.generated.join_group_request import JoinGroupRequest
from odradek.wire.generated.join_group_response import JoinGroupResponse
from odradek.wire.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.generated.leave_group_response import LeaveGroupResponse, MemberResponse
from odradek.wire.generated.sync_group_request import SyncGroupRequest
from odradek.wire.generated.sync_group_response import SyncGroupResponse

Result = CoordinatorResult[None]


class ClassicMembers(Decider):
    """Decides on JoinGroup, SyncGroup, Heartbeat and LeaveGroup in consumer groups."""

    # -- JoinGroup --------------------------------------------------------------------------------

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, requester: Requester, ticket: Any
    ) -> Result:
        """Process JoinGroup for a group with members.

        The response is sent to `ticket`.

        Raises:
            ApiError: the member cannot join.
        """
        self._migration.check_classic_may_join(group)
        is_unknown = not request.member_id
        member_id = request.member_id or uuids.to_text(uuids.make(self._state.random_bytes(16)))
        self._joining.check_room(group, member_id, request.group_instance_id)
        if not group.supports_classic(
            request.protocol_type, (each.name for each in request.protocols)
        ):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_static = request.group_instance_id is not None
        if is_unknown and not is_static and requester.api_version >= KNOWN_MEMBER_ID_VERSION:
            answer = join_failed(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            self._state.effects.answer(ticket, answer)
            return NOTHING
        subscription = _subscription(request)
        log: list[CoordinatorRecord] = []
        before = self._joining.member(
            group,
            member_id,
            request.group_instance_id,
            is_new=is_unknown or not is_static,
            is_classic=True,
            log=log,
        )
        after = _wish(before, request, requester, subscription)
        replaced = group.static_member(request.group_instance_id)
        is_downgrade = self._migration.can_downgrade_with(group, replaced)
        after = self._take(group, before, after, subscription, is_downgrade, log, requester.visible)
        return CoordinatorResult(
            log,
            None,
            replay=not is_downgrade,
            on_commit=partial(self._on_joined, group.group_id, request, after, ticket),
        )

    def _take(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        subscription: ConsumerProtocolSubscription,
        is_downgrade: bool,
        log: list[CoordinatorRecord],
        visible: Visible | None,
    ) -> ConsumerMember:
        """Return the member after its next step.

        If `is_downgrade` is True, convert the group to a classic group.
        """
        change = self._joining.take(group, before, after, log, visible)
        owned = self._owned(subscription)
        is_outdated = group.assignment_epoch < change.group_epoch
        if is_downgrade and is_outdated:
            self._migration.downgrade(group, log, joining=after, reason="members have changed")
            return after
        if is_downgrade:
            target = group.assignment_epoch, group.target_of(after)
        else:
            target = self._targets.update(
                group, change.group_epoch, before, after, change.is_homogeneous, log
            )
        after = self._progress.step(
            group, after, target, change.has_subscription_changed, owned, log
        )
        if is_downgrade:
            self._migration.downgrade(group, log, joining=after)
        return after

    def _owned(self, subscription: ConsumerProtocolSubscription) -> list[TopicPartitions]:
        by_name = self._state.image.topics.by_name
        return [
            TopicPartitions(topic_id=by_name[each.topic].id, partitions=each.partitions)
            for each in subscription.owned_partitions
            if each.topic in by_name
        ]

    def _on_joined(
        self,
        group_id: str,
        request: JoinGroupRequest,
        member: ConsumerMember,
        ticket: Any,
        error: ApiError | None,
    ) -> None:
        member_id = member.member_id
        if error is not None:
            self._state.effects.answer(ticket, join_failed(error.code, member_id))
            return
        self._state.timers.cancel(keys.join(group_id, member_id))
        if isinstance(self._state.groups.get(group_id), ConsumerGroup):
            timeout_ms = request.session_timeout_ms
            self._progress.expect_heartbeat(group_id, member_id, timeout_ms)
            self._progress.expect_sync(group_id, member_id, member.rebalance_timeout_ms)
        response = JoinGroupResponse(
            member_id=member_id,
            generation_id=member.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=member.classic_protocols[0].name,
        )
        self._state.effects.answer(ticket, response)

    # -- SyncGroup --------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, ticket: Any) -> Result:
        """Process SyncGroup.

        The response is sent to `ticket` when all records before it are committed.

        Raises:
            ApiError: the member is unknown, has another epoch, or must rejoin.
        """
        member = _member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        name = member.classic_protocols[0].name
        if request.protocol_type not in (
            None,
            CONSUMER_PROTOCOL_TYPE,
        ) or request.protocol_name not in (None, name):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if (
            group.assignment_epoch > member.member_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            self._progress.expect_join(group.group_id, member)
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=self._assignment(member),
        )
        on_commit = partial(self._on_synced, group.group_id, member, response, ticket)
        return CoordinatorResult(NO_RECORDS, None, on_commit=on_commit)

    def _assignment(self, member: ConsumerMember) -> bytes:
        by_id = self._state.image.topics.by_id
        by_name = {
            by_id[topic_id].name: sorted(partitions)
            for topic_id, partitions in member.assigned.items()
            if topic_id in by_id
        }
        return write_assignment(by_name, like=bytes(member.classic_protocols[0].metadata))

    def _on_synced(
        self,
        group_id: str,
        member: ConsumerMember,
        response: SyncGroupResponse,
        ticket: Any,
        error: ApiError | None,
    ) -> None:
        if error is not None:
            self._state.effects.answer(ticket, SyncGroupResponse(error_code=error.code))
            return
        assert member.classic is not None
        self._state.timers.cancel(keys.sync(group_id, member.member_id))
        timeout_ms = member.classic.session_timeout_ms
        self._progress.expect_heartbeat(group_id, member.member_id, timeout_ms)
        self._state.effects.answer(ticket, response)

    # -- Heartbeat and LeaveGroup -----------------------------------------------------------------

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest
    ) -> CoordinatorResult[HeartbeatResponse]:
        """Process a heartbeat.

        The response has the error REBALANCE_IN_PROGRESS if the member must rejoin.

        Raises:
            ApiError: the member is unknown, or has another epoch.
        """
        member = _member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        assert member.classic is not None
        group_id = group.group_id
        timeout_ms = member.classic.session_timeout_ms
        self._progress.expect_heartbeat(group_id, member.member_id, timeout_ms)
        if (
            member.member_epoch >= group.assignment_epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
            and (
                member.state is not MemberState.UNRELEASED_PARTITIONS
                or group.waits_for_others(member)
            )
        ):
            return CoordinatorResult(NO_RECORDS, HeartbeatResponse())
        self._progress.expect_join(group_id, member)
        response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return CoordinatorResult(NO_RECORDS, response)

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove the members in the request, which may use either protocol."""
        gone: dict[str, ConsumerMember] = {}
        response = LeaveGroupResponse()
        for identity in request.members:
            error = ErrorCode.NONE
            try:
                member = _leaver(group, identity)
                gone[member.member_id] = member
            except ApiError as refusal:
                error = refusal.code
            response.members.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=error,
                )
            )
        return self._leaving.remove(group, list(gone.values()), response)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Return the member's subscription. It is the same in all protocols of the request."""
    try:
        subscription, _ = read_subscription(request.protocols[0].metadata)
    except MalformedSubscription as error:
        what = f"The subscription: {error}."
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, what) from error
    return subscription


def _wish(
    before: ConsumerMember,
    request: JoinGroupRequest,
    requester: Requester,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return before._replace(
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=requester.client_id,
        client_host=requester.host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=_protocols(
                (each.name, each.metadata) for each in request.protocols
            ),
        ),
    )


def _protocols(protocols: Iterable[tuple[str, bytes]]) -> list[ClassicProtocol]:
    return [ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols]


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = static_owner(group, instance_id, member_id)
    if not member.uses_classic_protocol:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.member_epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)


def _leaver(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """Return the member that leaves. Without a member id, the instance id identifies it."""
    if identity.group_instance_id is None:
        return group.member(identity.member_id)
    if identity.member_id:
        return static_owner(group, identity.group_instance_id, identity.member_id)
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member
