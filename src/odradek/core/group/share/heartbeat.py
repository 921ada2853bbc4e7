"""ShareGroupHeartbeat, with which members join, keep their session, get assignments and leave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.group.group import GroupType, Requester
from odradek.core.group.modern.assignment import JOIN_EPOCH, LEAVE_EPOCH
from odradek.core.group.modern.assignment import Assignment as Partitions
from odradek.core.group.modern.subscriptions import TopicCount, is_homogeneous
from odradek.core.group.modern.timeouts import Timeouts
from odradek.core.group.modern.topics import Topics
from odradek.core.group.share import records
from odradek.core.group.share.group import KEYS, ShareGroup
from odradek.core.group.share.initialization import Initialization
from odradek.core.group.share.member import ShareMember
from odradek.core.group.share.state_partitions import merged
from odradek.core.group.share.targets import ShareTargets, Target
from odradek.core.group.state import GroupState
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
)
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

METADATA_REFRESH_MS: Final = 2**31 - 1
"""The interval at which a group's topics are hashed again even if no topic has changed."""
MEMBER_ID_LENGTH_MAX: Final = 36
"""The length of the text of a UUID."""


class Outcome(NamedTuple):
    """The response, and what the share coordinator must do when the heartbeat is committed."""

    response: ShareGroupHeartbeatResponse
    initialization: InitializeShareGroupStateRequest | None = None


class ShareHeartbeat:
    """Processes heartbeats of share groups. See the package for the steps."""

    def __init__(
        self,
        state: GroupState,
        topics: Topics,
        targets: ShareTargets,
        initialization: Initialization,
    ) -> None:
        self._state = state
        self._topics = topics
        self._targets = targets
        self._initialization = initialization
        self._timeouts = Timeouts(state, KEYS, "partitions", self.dismiss)

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, requester: Requester
    ) -> CoordinatorResult[Outcome]:
        """Process a heartbeat. `validate` must have accepted the request.

        Raises:
            ApiError: the request is rejected. Then the group does not change.
        """
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request)
        log: list[CoordinatorRecord] = []
        group = self._group(request)
        self._check_room(group, request.member_id)
        before = self._member(group, request)
        after = _wish(before, request, requester)
        counts, group_epoch, is_same, has_changed = self._take(group, before, after, log)
        names = request.subscribed_topic_names
        target = self._targets.update(group, group_epoch, after, names, is_same, log)
        after = self._reconcile(group, after, target, has_changed, log)
        self.expect_heartbeat(group.group_id, after.member_id)
        response = ShareGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=self._state.settings(group.group_id).share_heartbeat_interval_ms,
        )
        is_full = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
        if is_full or after.assigned != before.assigned:
            response.assignment = _assignment(after.assigned)
        initialization = self._initialization.begin(group, group_epoch, counts, log)
        return CoordinatorResult(log, Outcome(response, initialization))

    # -- steps ----------------------------------------------------------------------------------

    def _group(self, request: ShareGroupHeartbeatRequest) -> ShareGroup:
        group = self._state.groups.get(request.group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is None and request.member_epoch == JOIN_EPOCH:
            return ShareGroup(request.group_id, self._state.journal)  # registered by the replay
        what = "not found" if group is None else "not a share group"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is {what}.")

    def _check_room(self, group: ShareGroup, member_id: str) -> None:
        limit = self._state.config.group_share_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The group has {len(group.members)} members; group.share.max.size is {limit}.",
            )

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        member_id, epoch = request.member_id, request.member_epoch
        if epoch == JOIN_EPOCH:
            return group.members.get(member_id) or ShareMember(member_id)
        member = group.member(member_id)
        if epoch not in (member.member_epoch, member.previous_member_epoch) or (
            epoch > member.member_epoch
        ):
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The member is in epoch {member.member_epoch}, not {epoch}. "
                "It must abandon all its partitions and rejoin.",
            )
        return member

    def _take(
        self,
        group: ShareGroup,
        before: ShareMember,
        after: ShareMember,
        log: list[CoordinatorRecord],
    ) -> tuple[Iterable[str], int, bool, bool]:
        """Replace the member `before` by `after`. Append the records to `log`.

        Return the names of the subscribed topics, the group epoch, whether all members subscribe to
        the same topics, and whether the group epoch was increased.
        """
        group_id = group.group_id
        if after != before or after.member_id not in group.members:
            log.append(records.member_metadata(group_id, after))
        must_bump = after.topic_names != before.topic_names
        group_epoch = group.group_epoch
        if group.assignment_epoch >= group_epoch and not must_bump:
            must_bump = self._has_new_partitions(group)
        now_ms = self._state.clock.now_ms()
        counts: dict[str, TopicCount] = group.topic_counts
        member_count = len(group.members | {after.member_id: after})
        if not must_bump and not group.has_stale_metadata(now_ms):
            return counts, group_epoch, is_homogeneous({}, counts, member_count), False
        counts = group.topic_counts_with(before, after)
        metadata_hash = self._topics.group_hash(counts)
        must_bump = must_bump or metadata_hash != group.metadata_hash
        if must_bump:
            group_epoch += 1
            log.append(records.group_epoch(group_id, group_epoch, metadata_hash))
            self._state.note(group_id, f"epoch {group_epoch}: members or topics changed")
            self._state.rebalances[GroupType.SHARE] += 1
        group.refresh_metadata_at(now_ms + METADATA_REFRESH_MS, group_epoch)
        return counts, group_epoch, is_homogeneous({}, counts, member_count), must_bump

    def _has_new_partitions(self, group: ShareGroup) -> bool:
        """Return whether the initialized partitions of a subscribed topic differ from the assigned."""
        states = group.state_partitions
        if states is None or not states.initialized:
            return False
        assigned = merged(topic for target in group.targets.values() for topic in target.items())
        return any(
            topic.name in group.topic_counts and assigned.get(topic_id, set()) != topic.partitions
            for topic_id, topic in states.initialized.items()
        )

    def _reconcile(
        self,
        group: ShareGroup,
        member: ShareMember,
        target: Target,
        has_changed: bool,
        log: list[CoordinatorRecord],
    ) -> ShareMember:
        """Return the member with its target assignment; append a record if the member changes."""
        epoch, assignment = target
        if not has_changed and member.is_reconciled_to(epoch):
            return member
        topic_ids = self._topics.ids_of(member.topic_names)
        assigned: Partitions = {
            topic_id: partitions
            for topic_id, partitions in assignment.items()
            if topic_id in topic_ids
        }
        if epoch != member.member_epoch:
            after = member._replace(
                member_epoch=epoch,
                previous_member_epoch=member.member_epoch,
                state=0,
                assigned=assigned,
            )
        elif has_changed:
            after = member._replace(assigned=assigned)
        else:
            return member
        if after != member:
            log.append(records.current_assignment(group.group_id, after))
        return after

    # -- leaving --------------------------------------------------------------------------------

    def _leave(self, request: ShareGroupHeartbeatRequest) -> CoordinatorResult[Outcome]:
        group = self._state.group(request.group_id)
        if not isinstance(group, ShareGroup):
            message = f"Group {request.group_id} is not a share group."
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)
        member = group.member(request.member_id)
        self._state.note(group.group_id, f"{member.member_id} leaves")
        response = ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        return CoordinatorResult(self._removal(group, member), Outcome(response))

    def _removal(self, group: ShareGroup, member: ShareMember) -> list[CoordinatorRecord]:
        """Return the records that remove a member; cancel its timer."""
        counts = group.topic_counts_with(member, None)
        epoch = records.group_epoch(
            group.group_id, group.group_epoch + 1, self._topics.group_hash(counts)
        )
        state = self._state
        KEYS.cancel_all(state.timers, state.journal, group.group_id, member.member_id)
        log = [*records.member_tombstones(group.group_id, member.member_id), epoch]
        if len(group.members) == 1:
            log.append(records.target_epoch(group.group_id, group.group_epoch + 1, 0))
        return log

    # -- timeouts -------------------------------------------------------------------------------

    def expect_heartbeat(self, group_id: str, member_id: str) -> None:
        """Start or restart the session timeout of a member."""
        timeout_ms = self._state.settings(group_id).share_session_timeout_ms
        self._timeouts.expect_heartbeat(group_id, member_id, timeout_ms)

    def dismiss(self, group_id: str, member_id: str, why: str) -> CoordinatorResult[None]:
        """Remove a member, if it still exists."""
        group = self._state.groups.get(group_id)
        if not isinstance(group, ShareGroup) or member_id not in group.members:
            return NOTHING
        self._state.note(group_id, f"{member_id} {why}")
        return CoordinatorResult(self._removal(group, group.members[member_id]), None)


def validate(request: ShareGroupHeartbeatRequest) -> None:
    """Check the parts of the request that do not depend on the group.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if len(request.member_id) > MEMBER_ID_LENGTH_MAX:
        raise _invalid("Invalid member id in the request.")
    if request.member_epoch == JOIN_EPOCH:
        if not request.subscribed_topic_names:
            raise _invalid("SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _wish(
    before: ShareMember, request: ShareGroupHeartbeatRequest, requester: Requester
) -> ShareMember:
    """Return the member with the fields of the request. Omitted fields keep their value."""
    names = request.subscribed_topic_names
    return before._replace(
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        topic_names=before.topic_names if names is None else frozenset(names),
        client_id=requester.client_id,
        client_host=requester.host,
    )


def _assignment(assigned: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )
