"""Finds or creates members, and applies changes of their subscriptions to the group.

ConsumerGroupHeartbeat and JoinGroup both use this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.group.consumer import records
from odradek.core.group.consumer.assignors import configured_assignors
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.leaving import static_owner
from odradek.core.group.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from odradek.core.group.consumer.patterns import Patterns, RegexChange
from odradek.core.group.consumer.reconcile import OwnedTopic
from odradek.core.group.group import GroupType, Visible
from odradek.core.group.modern.assignment import JOIN_EPOCH
from odradek.core.group.modern.subscriptions import is_homogeneous
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState
from odradek.model.errors import ApiError, ErrorCode

METADATA_REFRESH_MS = 2**31 - 1
"""The interval at which a group's topics are hashed again even if no topic has changed."""


class Change(NamedTuple):
    """The effects of a member's new subscription."""

    group_epoch: int
    """The group epoch after the change."""
    is_homogeneous: bool
    """Whether all members now subscribe to the same topics."""
    has_subscription_changed: bool
    """Whether the topics of this member have changed."""


class Joining:
    """Finds or creates members, and records their subscriptions."""

    def __init__(self, state: GroupState, topics: Topics, patterns: Patterns) -> None:
        self._state = state
        self._topics = topics
        self._patterns = patterns

    # -- members --------------------------------------------------------------------------------

    def check_room(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
        """Check that the group is not full. A static member that returns replaces its former self.

        Raises:
            ApiError: GROUP_MAX_SIZE_REACHED.
        """
        if instance_id is not None and instance_id in group.static_members:
            return
        limit = self._state.config.group_consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The group has {len(group.members)} members; group.consumer.max.size is {limit}.",
            )

    def member(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        *,
        is_new: bool,
        is_classic: bool,
        log: list[CoordinatorRecord],
    ) -> ConsumerMember:
        """Return the member.

        If `is_new` is True, create the member if necessary. If its instance id already has a
        member, the new member id replaces the old one.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or UNRELEASED_INSTANCE_ID.
        """
        if instance_id is None:
            return self._known_or_new(group, member_id) if is_new else group.member(member_id)
        if not is_new:
            return static_owner(group, instance_id, member_id)
        former = group.static_member(instance_id)
        if former is None:
            return self._known_or_new(group, member_id)
        if not is_classic and not former.uses_classic_protocol:
            _check_released(former, instance_id, member_id)
        member = former._replace(
            member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
        )
        self._replace(group, former, member, log)
        return member

    def _known_or_new(self, group: ConsumerGroup, member_id: str) -> ConsumerMember:
        return group.members.get(member_id) or ConsumerMember(member_id)

    def _replace(
        self,
        group: ConsumerGroup,
        former: ConsumerMember,
        member: ConsumerMember,
        log: list[CoordinatorRecord],
    ) -> None:
        """Give the static member `former` a new member id.

        The timers of the old member id are not cancelled, but have no effect.
        """
        group_id = group.group_id
        self._state.note(group_id, f"{member.member_id} replaces {former.member_id}")
        target = group.target(former.member_id)
        log.extend(records.member_tombstones(group_id, former.member_id))
        log.append(records.member_metadata(group_id, member))
        log.append(records.target_assignment(group_id, member.member_id, target))
        log.append(records.current_assignment(group_id, member))

    # -- subscriptions --------------------------------------------------------------------------

    def take(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        log: list[CoordinatorRecord],
        visible: Visible | None,
    ) -> Change:
        """Replace the member `before` by `after`. Append the records to `log`.

        `visible` limits the topics that a pattern matches.

        Raises:
            ApiError: INVALID_REGULAR_EXPRESSION.
        """
        if after != before:
            log.append(records.member_metadata(group.group_id, after))
        have_names_changed = after.topic_names != before.topic_names
        regex = self._patterns.update(group, before, after, log, visible)
        has_changed = have_names_changed or regex is not RegexChange.NONE
        # A new pattern does not change any assignment before it is resolved.
        counts = (
            has_changed
            if after.uses_classic_protocol
            else have_names_changed
            or regex is RegexChange.RESOLVED
            or self._has_other_assignor(group, before, after)
        )
        if counts or group.has_stale_metadata(self._state.clock.now_ms()):
            epoch, is_same = self._refresh(group, before, after, counts, log)
        else:
            epoch = group.group_epoch
            is_same = is_homogeneous(group.regex_counts, group.topic_counts, len(group.members))
        return Change(epoch, is_same, has_changed)

    def _has_other_assignor(
        self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember
    ) -> bool:
        """Return whether the group's assignor changes when `before` is replaced by `after`.

        Apache Kafka 4.4 also says so if the vote of the member stays, while two assignors have the
        same number of votes and its two tables order them differently. Then each heartbeat increases
        the group epoch.
        """
        if before.server_assignor == after.server_assignor:
            return False
        default = configured_assignors(self._state.config.group_consumer_assignors)[0]
        now = group.preferred_assignor() or default
        return now != (group.preferred_assignor_with(before, after) or default)

    def _refresh(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        counts: bool,
        log: list[CoordinatorRecord],
    ) -> tuple[int, bool]:
        """Return the group epoch, and whether all members subscribe to the same topics.

        Increase the group epoch if a subscription or the assignor has changed (`counts`) or if the
        metadata of the subscribed topics has changed.
        """
        topics = group.topic_counts_with(before, after)
        metadata_hash = self._topics.group_hash(topics)
        group_epoch = group.group_epoch
        if counts or metadata_hash != group.metadata_hash:
            group_epoch += 1
            log.append(records.group_epoch(group.group_id, group_epoch, metadata_hash))
            self._state.note(group.group_id, f"epoch {group_epoch}: members or topics changed")
            self._state.rebalances[GroupType.CONSUMER] += 1
        now_ms = self._state.clock.now_ms()
        group.refresh_metadata_at(now_ms + METADATA_REFRESH_MS, group_epoch)
        if group.has_partition_metadata:
            log.append(records.partition_metadata_tombstone(group.group_id))
        is_known = after.member_id in group.members or (
            after.instance_id is not None and after.instance_id in group.static_members
        )
        regexes = group.regex_counts_with(before, after)
        member_count = len(group.members) + (not is_known)
        return group_epoch, is_homogeneous(regexes, topics, member_count)


def check_epoch(member: ConsumerMember, epoch: int, owned: Iterable[OwnedTopic] | None) -> None:
    """Check the member epoch in a heartbeat.

    The previous epoch is valid too, because the member may have missed the response with its
    current epoch. But then all partitions that it reports as owned must be assigned to it.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH.
    """
    current = member.member_epoch
    if epoch in (JOIN_EPOCH, current):
        return
    if epoch > current or epoch != member.previous_member_epoch or not _has_all(member, owned):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member is in epoch {current}, not {epoch}. "
            "It must revoke all its partitions and rejoin.",
        )


def _has_all(member: ConsumerMember, owned: Iterable[OwnedTopic] | None) -> bool:
    """Return whether all partitions that the member reports as owned are assigned to it.

    Return False if `owned` is None.
    """
    if owned is None:
        return False
    for topic in owned:
        held = member.assigned.get(topic.topic_id)
        if held is None or any(each not in held for each in topic.partitions):
            return False
    return True


def _check_released(former: ConsumerMember, instance_id: str, member_id: str) -> None:
    if former.member_epoch != STATIC_LEAVE_EPOCH:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Member {member_id} cannot join: instance id {instance_id} is in use by member "
            f"{former.member_id}.",
        )
