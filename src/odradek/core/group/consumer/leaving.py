"""Removes members that leave, that an administrator removes, or that are fenced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NO_RECORDS, CoordinatorResult
from odradek.core.group.consumer import keys, records
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from odradek.core.group.consumer.migration import Migration
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.generated.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)

ResponseT = TypeVar("ResponseT")


class Leaving:
    """Removes members."""

    def __init__(self, state: GroupState, topics: Topics, migration: Migration) -> None:
        self._state = state
        self._topics = topics
        self._migration = migration

    def leave(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """Process the last heartbeat of a member. A static member may leave temporarily.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
        """
        group = self._migration.consumer_group(request.group_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = static_owner(group, request.instance_id, request.member_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                self._state.note(group.group_id, f"{member.member_id} leaves temporarily")
                record = records.current_assignment(group.group_id, _away(member))
                return CoordinatorResult((record,), response)
        self._state.note(group.group_id, f"{member.member_id} leaves")
        return self.remove(group, [member], response)

    def remove(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], response: ResponseT
    ) -> CoordinatorResult[ResponseT]:
        """Remove members and increase the group epoch, so that other members get the partitions.

        If all remaining members use the classic protocol, and the settings allow it, the group
        becomes a classic group.
        """
        if not members:
            return CoordinatorResult(NO_RECORDS, response)
        log: list[CoordinatorRecord] = []
        if self._migration.can_downgrade_without(group, members):
            self._migration.downgrade(
                group, log, without=members, reason="the last consumer protocol member left"
            )
            return CoordinatorResult(log, response, replay=False)
        for member in members:
            log.extend(records.member_tombstones(group.group_id, member.member_id))
        regexes = _abandoned_regexes(group, members)
        log.extend(records.resolved_regex_tombstone(group.group_id, each) for each in regexes)
        topics = group.topic_counts_without(members, regexes)
        group_epoch = group.group_epoch + 1
        metadata_hash = self._topics.group_hash(topics)
        log.append(records.group_epoch(group.group_id, group_epoch, metadata_hash))
        if len(group.members) == len(members):
            # Otherwise the next member would get the epoch of a target that does not exist.
            log.append(records.target_epoch(group.group_id, group_epoch, 0))
        for member in members:
            keys.cancel_all(
                self._state.timers, self._state.journal, group.group_id, member.member_id
            )
        return CoordinatorResult(log, response)


def static_owner(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """Return the member with an instance id. It must have the member id `member_id`.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance id {instance_id} belongs to member {member.member_id} now, "
            f"not to {member_id}.",
        )
    return member


def _away(member: ConsumerMember) -> ConsumerMember:
    """Return a static member after it left temporarily. It keeps its partitions."""
    assigned = {
        topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()
    }
    return member._replace(
        member_epoch=STATIC_LEAVE_EPOCH, assigned=assigned, pending_revocation={}
    )


def _abandoned_regexes(group: ConsumerGroup, members: Sequence[ConsumerMember]) -> list[str]:
    """Return the patterns to which only these members subscribe."""
    counts: dict[str, int] = {}
    for member in members:
        if member.topic_regex:
            counts[member.topic_regex] = counts.get(member.topic_regex, 0) + 1
    return [regex for regex, count in counts.items() if group.regex_counts.get(regex, 0) == count]
