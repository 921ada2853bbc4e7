"""Computes the target assignments of share groups when a group has changed."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.group.modern.assignment import NO_ASSIGNMENT, Assignment
from odradek.core.group.modern.targets import log_targets
from odradek.core.group.modern.topics import Topics
from odradek.core.group.share import records
from odradek.core.group.share.assignor import NAME, GroupSpec, MemberSpec, assign
from odradek.core.group.share.group import ShareGroup
from odradek.core.group.share.member import ShareMember
from odradek.core.group.state import GroupState
from odradek.model.java_hash import java_hash
from odradek.model.java_order import (
    copied_capacity,
    hash_order,
    java_hash_order,
    java_set_order,
    timeline_capacity,
    timeline_order,
)

Target = tuple[int, Assignment]
"""The epoch of the target assignment, and the member's part of the target assignment."""


class ShareTargets:
    """Computes target assignments, at most once per assignment interval for each group."""

    def __init__(self, state: GroupState, topics: Topics) -> None:
        self._state = state
        self._topics = topics

    def update(
        self,
        group: ShareGroup,
        group_epoch: int,
        after: ShareMember,
        names: Sequence[str] | None,
        is_homogeneous: bool,
        log: list[CoordinatorRecord],
    ) -> Target:
        """Return the target of the member `after`, which may be new.

        `names` has the topics of the member in the order of its request; None if the request has no
        topics. The order decides if candidates are equal, as in Apache Kafka.

        If the group's target assignment is outdated, compute it again and append the records to
        `log`.
        """
        if group.assignment_epoch >= group_epoch or not self._is_time(group):
            return group.assignment_epoch, group.target(after.member_id)
        members = self._specs(group, after, names)
        wanted = set[bytes]().union(*(each.topic_ids for each in members.values()))
        counts = self._topics.partition_counts(wanted)
        states = group.state_partitions
        initialized = {} if states is None else states.initialized
        assignable = {topic_id: each.partitions for topic_id, each in initialized.items()}
        # With priorities, topics are distributed one by one, so that each member has all of them.
        together = is_homogeneous and not self._has_priorities(group)
        targets = assign(GroupSpec(members, counts, assignable, together))
        ordered = {each: targets.get(each, NO_ASSIGNMENT) for each in members}
        log_targets(self._state, group, group_epoch, ordered, NAME, records, log)
        return group_epoch, ordered[after.member_id]

    def _is_time(self, group: ShareGroup) -> bool:
        interval_ms = self._state.settings(group.group_id).share_assignment_interval_ms
        return group.is_assignment_due(self._state.clock.now_ms(), interval_ms)

    def _has_priorities(self, group: ShareGroup) -> bool:
        return bool(self._state.settings(group.group_id).odradek_share_priority)

    def _specs(
        self, group: ShareGroup, after: ShareMember, names: Sequence[str] | None
    ) -> dict[str, MemberSpec]:
        """Return all members, including `after`, in the order of Apache Kafka."""
        members = {**group.members, after.member_id: after}
        slots = group.member_slots
        if after.member_id not in group.members:
            slots = timeline_capacity(slots, len(group.members))
        known: dict[frozenset[str], AbstractSet[bytes]] = {}

        def topic_ids(names: frozenset[str]) -> AbstractSet[bytes]:
            found = known.get(names)
            if found is None:
                found = known[names] = self._topics.ids_of(java_set_order(names))
            return found

        specs = {
            member_id: MemberSpec(
                topic_ids(members[member_id].topic_names), group.target(member_id)
            )
            for member_id in java_hash_order(timeline_order(members, slots))
        }
        if names is not None:
            ordered = hash_order(dict.fromkeys(names), java_hash, copied_capacity(len(names)))
            ids = self._topics.ids_of(ordered)
            specs[after.member_id] = MemberSpec(ids, group.target(after.member_id))
        return specs
