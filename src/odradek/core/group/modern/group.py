"""The state that the groups with server-side assignments have in common.

`EpochGroup` has members, epochs and target assignments. `ModernGroup` is an `EpochGroup` whose
members subscribe to topics: a consumer group or a share group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Generic, Protocol, TypeVar

from odradek.core.coordinator.journal import Journal
from odradek.core.group.group import Group
from odradek.core.group.modern.assignment import NO_ASSIGNMENT, Assignment
from odradek.core.group.modern.subscriptions import TopicCount, adjusted
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.java_order import TIMELINE_CAPACITY_MIN, timeline_capacity


class EpochMember(Protocol):
    """What an `EpochGroup` uses of a member."""

    @property
    def member_id(self) -> str:
        """The id of the member."""
        ...


class ModernMember(EpochMember, Protocol):
    """What a `ModernGroup` uses of a member."""

    @property
    def topic_names(self) -> frozenset[str]:
        """The names of the topics that the member subscribes to."""
        ...


EpochMemberT = TypeVar("EpochMemberT", bound=EpochMember)
MemberT = TypeVar("MemberT", bound=ModernMember)
TargetT = TypeVar("TargetT")


class EpochGroup(Group, Generic[EpochMemberT, TargetT]):
    """Members, epochs and target assignments. They change only by the replay of records."""

    def __init__(self, group_id: str, journal: Journal) -> None:
        self.group_id = group_id
        self._journal = journal
        self.group_epoch = 1
        """Increased by one whenever the target assignment must be computed again."""
        self.metadata_hash = 0
        """The hash of the group's topics (ids, names, partitions, racks)."""
        self.assignment_epoch = 1
        """The group epoch for which the target assignment was computed."""
        self.assignment_timestamp_ms = 0
        self.members: dict[str, EpochMemberT] = {}
        self.member_slots = TIMELINE_CAPACITY_MIN
        """The number of slots of Apache Kafka's member table, which never shrinks. It determines
        the order of the members."""
        self.targets: dict[str, TargetT] = {}
        self._metadata_deadline_ms = 0
        self._metadata_deadline_epoch = 0

    # -- queries --------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """See `Group`."""
        return not self.members

    def validate_delete(self) -> None:
        """See `Group`."""
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def member(self, member_id: str) -> EpochMemberT:
        """Return the member with this id.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID.
        """
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    @abstractmethod
    def update_member(self, member: EpochMemberT) -> None:
        """Add or replace a member."""

    @abstractmethod
    def remove_member(self, member_id: str) -> None:
        """Remove a member."""

    @abstractmethod
    def uses_any(self, topics: AbstractSet[str]) -> bool:
        """Return whether the group's assignment depends on one of the topics."""

    def is_assignment_due(self, now_ms: int, interval_ms: int) -> bool:
        """Return whether a new target may be computed.

        The first target is computed immediately. Later targets are computed once per interval.
        """
        if self.assignment_timestamp_ms == 0 or interval_ms == 0:
            return True
        return now_ms >= self.assignment_timestamp_ms + interval_ms

    # -- metadata -------------------------------------------------------------------------------

    def refresh_metadata_at(self, deadline_ms: int, group_epoch: int) -> None:
        """Set the time of the next check of the topics' metadata, and the epoch of this check."""
        self._metadata_deadline_ms = deadline_ms
        self._metadata_deadline_epoch = group_epoch

    def request_metadata_refresh(self) -> None:
        """Check the group's topics at the next heartbeat, because their metadata has changed."""
        self.refresh_metadata_at(0, 0)

    def has_stale_metadata(self, now_ms: int) -> bool:
        """Return whether the topics' metadata must be checked."""
        return (
            now_ms >= self._metadata_deadline_ms or self.group_epoch < self._metadata_deadline_epoch
        )

    # -- replay ---------------------------------------------------------------------------------

    def set_epoch(self, group_epoch: int, metadata_hash: int) -> None:
        """Set the group epoch and the metadata hash."""
        self._journal.assign(self, "group_epoch", group_epoch)
        self._journal.assign(self, "metadata_hash", metadata_hash)

    def set_assignment_epoch(self, epoch: int, timestamp_ms: int) -> None:
        """Set the epoch and the time of the target assignment. The epoch is -1 without a target."""
        self._journal.assign(self, "assignment_epoch", epoch)
        self._journal.assign(self, "assignment_timestamp_ms", timestamp_ms)

    def set_target(self, member_id: str, target: TargetT) -> None:
        """Set the target assignment of a member."""
        self._journal.put(self.targets, member_id, target)

    def remove_target(self, member_id: str) -> None:
        """Remove the target assignment of a member."""
        self._journal.remove(self.targets, member_id)

    def _put_member(self, member: EpochMemberT) -> EpochMemberT | None:
        """Add or replace a member. Return the member before."""
        slots = timeline_capacity(self.member_slots, len(self.members))
        if slots != self.member_slots:
            self._journal.assign(self, "member_slots", slots)
        return self._journal.put(self.members, member.member_id, member)

    def _drop_member(self, member_id: str) -> EpochMemberT | None:
        """Remove a member. Return the member."""
        return self._journal.remove(self.members, member_id)


class ModernGroup(EpochGroup[MemberT, Assignment]):
    """A group whose members subscribe to topics."""

    def __init__(self, group_id: str, journal: Journal) -> None:
        super().__init__(group_id, journal)
        self.topic_counts: dict[str, TopicCount] = {}

    def is_subscribed_to(self, topic: str) -> bool:
        """See `Group`."""
        return topic in self.topic_counts

    def uses_any(self, topics: AbstractSet[str]) -> bool:
        """See `EpochGroup`."""
        return not topics.isdisjoint(self.topic_counts)

    def target(self, member_id: str) -> Assignment:
        """Return the target assignment of a member."""
        return self.targets.get(member_id, NO_ASSIGNMENT)

    # -- replay ---------------------------------------------------------------------------------

    def _put_member(self, member: MemberT) -> MemberT | None:
        """Add or replace a member, and count its topics. Return the member before."""
        before = super()._put_member(member)
        if before is None:
            self._count_topics(member.topic_names, names=1)
        elif before.topic_names != member.topic_names:
            self._count_topics(before.topic_names, names=-1)
            self._count_topics(member.topic_names, names=1)
        return before

    def _drop_member(self, member_id: str) -> MemberT | None:
        """Remove a member, and no longer count its topics. Return the member."""
        member = super()._drop_member(member_id)
        if member is not None:
            self._count_topics(member.topic_names, names=-1)
        return member

    def _count_topics(self, topics: Iterable[str], names: int = 0, regexes: int = 0) -> None:
        for topic in topics:
            count = adjusted(self.topic_counts.get(topic), names, regexes)
            if count is None:
                self._journal.remove(self.topic_counts, topic)
            else:
                self._journal.put(self.topic_counts, topic, count)
