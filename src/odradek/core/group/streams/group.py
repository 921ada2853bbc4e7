"""The state of one Streams group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.timers import TimerTable
from odradek.core.group.group import Committer, GroupType, ValidatePartition
from odradek.core.group.modern.committing import CommittingGroup
from odradek.core.group.streams import keys, records
from odradek.core.group.streams.configuration import ConfiguredTopology
from odradek.core.group.streams.member import StreamsMember
from odradek.core.group.streams.tasks import EMPTY, MemberTasks, Tasks
from odradek.core.group.streams.topology import Topology

PROTOCOL_TYPE: Final = "streams"
NEVER_VALIDATED: Final = -1
NO_CONFIGS: Final[Mapping[str, str]] = {}
_NOBODY: Final[frozenset[str]] = frozenset()

EMPTY_STATE: Final = "Empty"
NOT_READY: Final = "NotReady"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"
DEAD: Final = "Dead"
STATES: Final = EMPTY_STATE, NOT_READY, ASSIGNING, RECONCILING, STABLE, DEAD

Owners = dict[tuple[str, int], tuple[str, ...]]
"""The processes that have a task, or must revoke it. As in Apache Kafka, an active task has only the
last process that got it, and a process is listed once, however many of its members have the task:
it is removed with the first of them."""


class StreamsGroup(CommittingGroup[StreamsMember, Tasks]):
    """One group. Except for the fields that are not in the log, only the replay changes it."""

    type = GroupType.STREAMS

    def __init__(self, group_id: str, journal: Journal) -> None:
        super().__init__(group_id, journal)
        self.topology: Topology | None = None
        self.validated_topology_epoch = NEVER_VALIDATED
        """The epoch of the topology if all its topics exist; otherwise -1."""
        self.last_assignment_configs: Mapping[str, str] = NO_CONFIGS
        """The settings with which the last target assignment was computed."""
        self.description_epochs = records.DescriptionEpochs()
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.task_offsets: dict[str, Mapping[tuple[str, int], int]] = {}
        """Member id -> task -> the sum of the offsets that the member has reported. Not in the log."""
        self.task_end_offsets: dict[str, Mapping[tuple[str, int], int]] = {}
        """The same for the ends of the changelogs."""
        self._active_owners: Owners = {}
        self._standby_owners: Owners = {}
        self._warmup_owners: Owners = {}
        self.configured: ConfiguredTopology | None = None
        """Not in the log. None until the topics are checked after a start or a change."""
        self.shutdown_requested_by: str | None = None
        """The member that requests that all members shut down. Not in the log."""
        self.endpoints_epoch = 0
        """Increased when the tasks of a member with an endpoint change. Not in the log."""

    # -- methods of `Group` ---------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """See `Group`."""
        if not self.members:
            return EMPTY_STATE
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return STABLE
        return RECONCILING

    @property
    def protocol_type_name(self) -> str:
        """See `Group`."""
        return PROTOCOL_TYPE

    def validate_offset_commit(self, committer: Committer) -> ValidatePartition | None:
        """See `Group`.

        A member may commit with its current epoch. With an earlier epoch, a member may commit only
        for active tasks that were assigned to it in this epoch or before. Other clients may commit
        while the group has no members. TxnOffsetCommit without a member id is always allowed.
        """
        member = self.late_committer(committer)
        if member is None:
            return None
        epoch = committer.generation_or_epoch
        topology = self.topology
        if topology is None:
            raise self.stale(member, "the group has no topology")

        def validate(topic: str, topic_id: bytes, partition: int) -> None:
            subtopology = topology.subtopology_of(topic)
            if subtopology is None:
                raise self.stale(member, f"topic {topic} is not in the topology")
            since = member.epoch_of(subtopology, partition)
            if since is None:
                raise self.stale(member, f"task {subtopology}-{partition} is not assigned to it")
            if epoch < since:
                raise self.stale(member, f"it got task {subtopology}-{partition} in epoch {since}")

        return validate

    def is_subscribed_to(self, topic: str) -> bool:
        """See `Group`. A group without members reads no topic."""
        if not self.members or self.topology is None:
            return False
        return self.topology.subtopology_of(topic) is not None

    def tombstones(self) -> list[CoordinatorRecord]:
        """See `Group`."""
        has_description = self.description_epochs.stored != records.NO_DESCRIPTION
        return records.group_tombstones(
            self.group_id, self.members, has_description=has_description
        )

    def cancel_timers(self, timers: TimerTable) -> None:
        """See `Group`."""
        timers.cancel(keys.initial_delay(self.group_id))
        for member_id in self.members:
            keys.MEMBERS.cancel_all(timers, self._journal, self.group_id, member_id)

    # -- queries --------------------------------------------------------------------------------

    def uses_any(self, topics: AbstractSet[str]) -> bool:
        """See `EpochGroup`."""
        return self.topology is not None and not topics.isdisjoint(self.topology.required_topics)

    def target(self, member_id: str) -> Tasks:
        """Return the target assignment of a member."""
        return self.targets.get(member_id, EMPTY)

    def static_member(self, instance_id: str | None) -> StreamsMember | None:
        """Return the member with this instance id; None if it does not exist."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: StreamsMember) -> Tasks:
        """Return the target assignment of a member.

        If a static member has a new member id, return the target of its previous member id.
        """
        former = self.static_member(member.instance_id)
        return self.target(member.member_id if former is None else former.member_id)

    def active_owner(self, subtopology: str, partition: int) -> str | None:
        """Return the process that has an active task, or must revoke it; None if there is none."""
        owners = self._active_owners.get((subtopology, partition))
        return owners[-1] if owners else None

    def standby_owners(self, subtopology: str, partition: int) -> AbstractSet[str]:
        """Return the processes that have a standby task, or must revoke it."""
        return frozenset(self._standby_owners.get((subtopology, partition), _NOBODY))

    def warmup_owners(self, subtopology: str, partition: int) -> AbstractSet[str]:
        """Return the processes that have a warm-up task, or must revoke it."""
        return frozenset(self._warmup_owners.get((subtopology, partition), _NOBODY))

    # -- state that is not in the log -----------------------------------------------------------

    def set_configured(self, configured: ConfiguredTopology) -> None:
        """Set the result of the last check of the topology's topics."""
        self.configured = configured

    def request_shutdown(self, member_id: str) -> None:
        """Note that a member requests that all members shut down. The first request counts."""
        if self.shutdown_requested_by is None:
            self.shutdown_requested_by = member_id

    def set_task_offsets(self, member_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Note the offsets of tasks that a member has reported."""
        self.task_offsets[member_id] = offsets

    def set_task_end_offsets(self, member_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Note the ends of the changelogs of tasks that a member has reported."""
        self.task_end_offsets[member_id] = offsets

    def change_endpoints(self) -> None:
        """Increase the epoch of the endpoints."""
        self.endpoints_epoch += 1

    # -- replay ---------------------------------------------------------------------------------

    def set_topology(self, topology: Topology | None) -> None:
        """Set the topology."""
        self._journal.assign(self, "topology", topology)

    def set_validation(self, topology_epoch: int, configs: Mapping[str, str]) -> None:
        """Set the epoch of the validated topology, and the settings of the assignment."""
        self._journal.assign(self, "validated_topology_epoch", topology_epoch)
        self._journal.assign(self, "last_assignment_configs", configs)

    def set_description_epochs(self, epochs: records.DescriptionEpochs) -> None:
        """Set the epochs of the stored and of the failed description."""
        self._journal.assign(self, "description_epochs", epochs)

    def update_member(self, member: StreamsMember) -> None:
        """Add or replace a member."""
        before = self._put_member(member)
        if before is not None:
            self._disown(before)
        if member.instance_id is not None:
            self._journal.put(self.static_members, member.instance_id, member.member_id)
        for tasks in (member.assigned, member.pending_revocation):
            for owners, role in self._roles(tasks):
                for task in _each(role):
                    known = () if owners is self._active_owners else owners.get(task, ())
                    if member.process_id not in known:
                        self._journal.put(owners, task, (*known, member.process_id))

    def remove_member(self, member_id: str) -> None:
        """Remove a member."""
        member = self._drop_member(member_id)
        self.task_offsets.pop(member_id, None)
        self.task_end_offsets.pop(member_id, None)
        if member is not None:
            self._disown(member)
            if self.static_members.get(member.instance_id or "") == member_id:
                self._journal.remove(self.static_members, member.instance_id or "")
        if not self.members:
            self.shutdown_requested_by = None

    def _disown(self, member: StreamsMember) -> None:
        for tasks in (member.assigned, member.pending_revocation):
            for owners, role in self._roles(tasks):
                for task in _each(role):
                    known = owners.get(task, ())
                    left = tuple(each for each in known if each != member.process_id)
                    if left:
                        self._journal.put(owners, task, left)
                    elif known:
                        self._journal.remove(owners, task)

    def _roles(self, tasks: MemberTasks) -> tuple[tuple[Owners, Mapping[str, Iterable[int]]], ...]:
        return (
            (self._active_owners, tasks.active),
            (self._standby_owners, tasks.standby),
            (self._warmup_owners, tasks.warmup),
        )


def _each(tasks: Mapping[str, Iterable[int]]) -> Iterable[tuple[str, int]]:
    return ((each, partition) for each, partitions in tasks.items() for partition in partitions)
