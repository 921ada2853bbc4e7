"""ConsumerGroupHeartbeat, with which members join, keep their session, reconcile and leave."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import CoordinatorResult
from odradek.core.group.consumer.assignors import configured_assignors
from odradek.core.group.consumer.decider import Decider
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.joining import check_epoch
from odradek.core.group.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember, HeldPartitions
from odradek.core.group.group import Requester
from odradek.core.group.modern.assignment import JOIN_EPOCH, LEAVE_EPOCH
from odradek.model import uuids
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.generated.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

MEMBER_ID_VERSION = 1
"""From this version on, members generate their member id themselves."""

Result = CoordinatorResult[ConsumerGroupHeartbeatResponse]


class Heartbeat(Decider):
    """Processes heartbeats of the consumer protocol. See the package for the four steps."""

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, requester: Requester) -> Result:
        """Process a heartbeat. `validate` must have accepted the request.

        Raises:
            ApiError: the request is rejected. Then the group does not change.
        """
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leaving.leave(request)
        log: list[CoordinatorRecord] = []
        group = self._group(request, log)
        member_id = request.member_id or uuids.to_text(uuids.make(self._state.random_bytes(16)))
        self._joining.check_room(group, request.member_id, request.instance_id)
        before = self._member(group, member_id, request, log)
        after = _wish(before, request, requester)
        change = self._joining.take(group, before, after, log, requester.visible)
        target = self._targets.update(
            group, change.group_epoch, before, after, change.is_homogeneous, log
        )
        after = self._progress.step(
            group, after, target, change.has_subscription_changed, request.topic_partitions, log
        )
        self._expect_heartbeats(group, member_id)
        settings = self._state.settings(group.group_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
        )
        if _is_full(request) or after.assigned != before.assigned:
            response.assignment = _assignment(after.assigned)
        return CoordinatorResult(log, response)

    # -- steps ----------------------------------------------------------------------------------

    def _group(
        self, request: ConsumerGroupHeartbeatRequest, log: list[CoordinatorRecord]
    ) -> ConsumerGroup:
        if request.member_epoch == JOIN_EPOCH:
            return self._migration.group_to_join(request.group_id, log)
        return self._migration.consumer_group(request.group_id)

    def _member(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        log: list[CoordinatorRecord],
    ) -> ConsumerMember:
        is_new = request.member_epoch == JOIN_EPOCH
        member = self._joining.member(
            group, member_id, request.instance_id, is_new=is_new, is_classic=False, log=log
        )
        check_epoch(member, request.member_epoch, request.topic_partitions)
        return member

    def _expect_heartbeats(self, group: ConsumerGroup, member_id: str) -> None:
        """Start the session timeout of this member.

        If the group was converted from a classic group, start the timeouts of all members.
        """
        group_id = group.group_id
        if self._state.groups.get(group_id) is not group:
            for member in group.members.values():
                assert member.classic is not None, f"{group} is new"
                timeout_ms = member.classic.session_timeout_ms
                self._progress.expect_heartbeat(group_id, member.member_id, timeout_ms)
        self._progress.expect_heartbeat(group_id, member_id)


def validate(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Sequence[str]
) -> None:
    """Check the parts of the request that do not depend on the group.

    `assignors` is the setting `group.consumer.assignors`.

    Raises:
        ApiError: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    epoch = request.member_epoch
    needs_id = api_version >= MEMBER_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH
    if needs_id and not request.member_id.strip():
        raise _invalid("MemberId must not be empty.")
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} must not be empty.")
    if epoch == JOIN_EPOCH:
        _validate_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId must not be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch {epoch} is not valid.")
    known = configured_assignors(assignors)
    if request.server_assignor is not None and request.server_assignor not in known:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"The assignor {request.server_assignor} is not supported; use {', '.join(known)}.",
        )


def _validate_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be given when joining.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be given when joining.")


def _wish(
    before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, requester: Requester
) -> ConsumerMember:
    """Return the member with the fields of the request. Omitted fields keep their value."""
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return before._replace(
        instance_id=_or(request.instance_id, before.instance_id),
        rack_id=_or(request.rack_id, before.rack_id),
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=_or(request.server_assignor, before.server_assignor),
        topic_names=before.topic_names if names is None else frozenset(names),
        topic_regex=_or(regex, before.topic_regex),
        client_id=requester.client_id,
        client_host=requester.host,
        classic=None,
    )


def _or(said: str | None, before: str | None) -> str | None:
    return before if said is None else said


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the request has all fields. Then the response must have the assignment.

    Members send all fields when they join and when they may have missed a response.
    """
    if request.member_epoch == JOIN_EPOCH:
        return True
    subscribes = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    return (
        request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None
    )


def _assignment(held: HeldPartitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in held.items()
        ]
    )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
