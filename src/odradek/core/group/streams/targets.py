"""Computes the target assignments of Streams groups when a group has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.group.modern.targets import log_targets
from odradek.core.group.state import GroupState
from odradek.core.group.streams import keys, records
from odradek.core.group.streams.assignor import (
    NAME,
    NO_OFFSETS,
    MemberSpec,
    SubtopologySpec,
    assign,
)
from odradek.core.group.streams.configuration import ConfiguredTopology
from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.member import StreamsMember
from odradek.core.group.streams.tasks import EMPTY, Tasks
from odradek.model.java_order import java_hash_order, timeline_order

STANDBY_REPLICAS: Final = "num.standby.replicas"
RACK_TAGS: Final = "rack.aware.assignment.tags"
"""The keys in the record of the group epoch."""
INITIAL_DELAY: Final = "Assignment delayed due to the configured initial rebalance delay."
INTERVAL: Final = "Assignment delayed due to the configured assignment interval."


class Target(NamedTuple):
    """The epoch of the target assignment, and the member's part of it."""

    epoch: int
    tasks: Tasks
    delay: str | None = None
    """Why the target assignment is not computed yet. None if it is up to date."""


class StreamsTargets:
    """Computes target assignments.

    The first target of a group is computed when the initial rebalance delay has passed, so that the
    first members get their tasks at once. Later targets are computed at most once per interval.
    """

    def __init__(self, state: GroupState) -> None:
        self._state = state

    def begin_delay(self, group_id: str) -> None:
        """Start the initial rebalance delay, unless it is running. The group has no members."""
        key = keys.initial_delay(group_id)
        delay_ms = self._state.settings(group_id).streams_initial_rebalance_delay_ms
        if delay_ms > 0 and key not in self._state.timers:
            self._state.timers.schedule(key, delay_ms, self.end_delay, group_id)

    def end_delay(self, group_id: str) -> CoordinatorResult[None]:
        """Compute the first target assignment of a group, if the group has members."""
        group = self._state.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or not group.members or group.configured is None:
            return NOTHING
        log: list[CoordinatorRecord] = []
        configs = group.last_assignment_configs
        self._update(group, group.group_epoch, None, group.configured, configs, log)
        return CoordinatorResult(log, None)

    def update(
        self,
        group: StreamsGroup,
        group_epoch: int,
        after: StreamsMember,
        configured: ConfiguredTopology,
        configs: Mapping[str, str],
        log: list[CoordinatorRecord],
    ) -> Target:
        """Return the target of the member `after`, which may be new.

        If the group's target assignment is outdated, compute it again and append the records to
        `log`.
        """
        if keys.initial_delay(group.group_id) in self._state.timers:
            return Target(group.assignment_epoch, EMPTY, INITIAL_DELAY)
        return self._update(group, group_epoch, after, configured, configs, log)

    def _update(
        self,
        group: StreamsGroup,
        group_epoch: int,
        after: StreamsMember | None,
        configured: ConfiguredTopology,
        configs: Mapping[str, str],
        log: list[CoordinatorRecord],
    ) -> Target:
        """Do the same as `update`, after the initial delay. `after` is None if no member changes."""
        present = EMPTY if after is None else group.target_of(after)
        if group.assignment_epoch >= group_epoch:
            return Target(group.assignment_epoch, present)
        if not self._is_time(group):
            return Target(group.assignment_epoch, present, INTERVAL)
        members = self._specs(group, after)
        targets = dict.fromkeys(members, EMPTY)
        if configured.is_ready and configured.subtopologies is not None:
            subtopologies = {
                subtopology_id: SubtopologySpec(each.task_count, each.is_stateful)
                for subtopology_id, each in configured.subtopologies.items()
            }
            targets = assign(members, subtopologies, int(configs.get(STANDBY_REPLICAS, "0")))
        log_targets(
            self._state,
            group,
            group_epoch,
            {each: targets[each] for each in members},
            NAME,
            records,
            log,
        )
        return Target(group_epoch, EMPTY if after is None else targets[after.member_id])

    def _is_time(self, group: StreamsGroup) -> bool:
        interval_ms = self._state.settings(group.group_id).streams_assignment_interval_ms
        return group.is_assignment_due(self._state.clock.now_ms(), interval_ms)

    def _specs(self, group: StreamsGroup, after: StreamsMember | None) -> dict[str, MemberSpec]:
        """Return all members, including `after`, in the order of Apache Kafka."""
        members = dict(group.members)
        ordered = timeline_order(members, group.member_slots)
        if after is not None:
            former = group.static_member(after.instance_id)
            if former is not None and former.member_id != after.member_id:
                ordered.remove(former.member_id)
            if after.member_id not in members:
                ordered.append(after.member_id)
            members[after.member_id] = after
        return {each: _spec(group, members[each]) for each in java_hash_order(ordered)}


def _spec(group: StreamsGroup, member: StreamsMember) -> MemberSpec:
    held = member.assigned
    active = {each: frozenset(partitions) for each, partitions in held.active.items()}
    return MemberSpec(
        member.process_id,
        Tasks(active, held.standby, held.warmup),
        group.task_offsets.get(member.member_id, NO_OFFSETS),
    )
