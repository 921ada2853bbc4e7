"""Computes target assignments when a group has changed."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.group.consumer import records
from odradek.core.group.consumer.assignors import (
    ASSIGNORS,
    GroupSpec,
    MemberSpec,
    configured_assignors,
)
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.member import ConsumerMember
from odradek.core.group.modern.assignment import NO_ASSIGNMENT, Assignment
from odradek.core.group.modern.targets import log_targets
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState
from odradek.model.java_order import java_hash_order, timeline_order

Target = tuple[int, Assignment]
"""The epoch of the target assignment, and the member's part of the target assignment."""


class Targets:
    """Computes target assignments, at most once per assignment interval for each group."""

    def __init__(self, state: GroupState, topics: Topics) -> None:
        self._state = state
        self._topics = topics

    @property
    def default_assignor(self) -> str:
        """The assignor of groups whose members request no assignor."""
        return configured_assignors(self._state.config.group_consumer_assignors)[0]

    def update(
        self,
        group: ConsumerGroup,
        group_epoch: int,
        before: ConsumerMember,
        after: ConsumerMember,
        is_homogeneous: bool,
        log: list[CoordinatorRecord],
    ) -> Target:
        """Return the member's target.

        If the group's target assignment is outdated, compute it again and append the records to
        `log`. `after` replaces `before` and the static member with the same instance id.
        """
        if group.assignment_epoch >= group_epoch or not self._is_time(group):
            return group.assignment_epoch, group.target_of(after)
        assignor = group.preferred_assignor_with(before, after) or self.default_assignor
        members = self._specs(group, after)
        wanted = set[bytes]().union(*(each.topic_ids for each in members.values()))
        counts = self._topics.partition_counts(wanted)
        targets = ASSIGNORS[assignor](GroupSpec(members, counts, is_homogeneous))
        ordered = {each: targets.get(each, NO_ASSIGNMENT) for each in members}
        log_targets(self._state, group, group_epoch, ordered, assignor, records, log)
        return group_epoch, ordered[after.member_id]

    def _is_time(self, group: ConsumerGroup) -> bool:
        interval_ms = self._state.settings(group.group_id).consumer_assignment_interval_ms
        return group.is_assignment_due(self._state.clock.now_ms(), interval_ms)

    def _specs(self, group: ConsumerGroup, after: ConsumerMember) -> dict[str, MemberSpec]:
        """Return all members, including `after`, in the order of Apache Kafka."""
        members = dict(group.members)
        replaced = group.static_member(after.instance_id)
        target = group.target(after.member_id)
        if replaced is not None and replaced.member_id != after.member_id:
            del members[replaced.member_id]
            target = group.target(replaced.member_id)
        members[after.member_id] = after
        order = [
            each for each in timeline_order(group.members, group.member_slots) if each in members
        ]
        order.append(after.member_id)
        known: dict[tuple[frozenset[str], str | None], tuple[AbstractSet[bytes], int]] = {}

        def spec(member: ConsumerMember, target: Assignment) -> MemberSpec:
            subscription = member.topic_names, member.topic_regex
            found = known.get(subscription)
            if found is None:
                names = group.subscribed_topics_in_order(member)
                found = known[subscription] = self._topics.ids_of(names), len(names)
            topic_ids, name_count = found
            return MemberSpec(topic_ids, target, member.instance_id, name_count)

        return {
            member_id: spec(
                members[member_id],
                target if member_id == after.member_id else group.target(member_id),
            )
            for member_id in java_hash_order(order)
        }
