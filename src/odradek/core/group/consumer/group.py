"""The state of one consumer group."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping

from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.timers import TimerTable
from odradek.core.group.consumer import keys, records
from odradek.core.group.consumer.member import ConsumerMember, HeldPartitions, MemberState
from odradek.core.group.group import (
    CONSUMER_PROTOCOL_TYPE,
    Committer,
    GroupType,
    ValidatePartition,
)
from odradek.core.group.modern.assignment import NO_ASSIGNMENT, Assignment
from odradek.core.group.modern.committing import CommittingGroup
from odradek.core.group.modern.group import ModernGroup
from odradek.core.group.modern.subscriptions import (
    UNRESOLVED,
    ResolvedRegex,
    TopicCount,
    adjust_all,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.java_hash import java_hash
from odradek.model.java_order import (
    DEFAULT_CAPACITY,
    TIMELINE_CAPACITY_MIN,
    JavaHashTable,
    java_set_order,
    roomy_capacity,
    timeline_order,
)

NO_OWNER = -1

STATES = EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"


class ConsumerGroup(CommittingGroup[ConsumerMember, Assignment], ModernGroup[ConsumerMember]):
    """One group. Its members and target assignments change only by the replay of records.

    The conversion of a classic group creates a temporary group with a separate journal, which is
    never rolled back. The replay of the group's records then creates the permanent group.
    """

    type = GroupType.CONSUMER

    def __init__(self, group_id: str, journal: Journal) -> None:
        super().__init__(group_id, journal)
        self.static_members: dict[str, str] = {}
        """Member id by instance id."""
        self.regex_counts: dict[str, int] = {}
        """Number of members that subscribe to each pattern."""
        self.resolved_regexes: dict[str, ResolvedRegex] = {}
        self.assignor_counts: dict[str, int] = {}
        """Number of members that request each assignor."""
        self.classic_member_count = 0
        self.classic_protocol_counts: dict[str, int] = {}
        """Number of classic members that support each protocol."""
        self.has_partition_metadata = False
        """Whether the log has a record from before Kafka 4.1 that must be removed."""
        self._owner_epochs: dict[bytes, dict[int, int]] = {}

    # -- methods of `Group` ---------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """See `Group`."""
        if not self.members:
            return EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return STABLE
        return RECONCILING

    @property
    def protocol_type_name(self) -> str:
        """See `Group`."""
        return CONSUMER_PROTOCOL_TYPE

    def validate_offset_commit(self, committer: Committer) -> ValidatePartition | None:
        """See `Group`.

        A member may commit with its current epoch. With an earlier epoch, a member may commit only
        the partitions that were assigned to it in this epoch or before. Other clients may commit
        while the group has no members. TxnOffsetCommit without a member id is always allowed.
        """
        member = self.late_committer(committer)
        if member is None:
            return None
        epoch = committer.generation_or_epoch

        def validate(topic: str, topic_id: bytes, partition: int) -> None:
            since = member.epoch_of(topic_id, partition)
            if since is None:
                raise self.stale(member, f"{topic}-{partition} is not assigned to the member")
            if epoch < since:
                raise self.stale(member, f"the member got {topic}-{partition} in epoch {since}")

        return validate

    def stale(self, member: ConsumerMember, why: str) -> ApiError:
        """See `CommittingGroup`. Members with the classic protocol get another code."""
        if member.uses_classic_protocol:
            return ApiError(ErrorCode.ILLEGAL_GENERATION, why)
        return ApiError(ErrorCode.STALE_MEMBER_EPOCH, why)

    def commits_with_old_requests(self, member: ConsumerMember) -> bool:
        """See `CommittingGroup`."""
        return member.uses_classic_protocol

    def tombstones(self) -> list[CoordinatorRecord]:
        """See `Group`."""
        return records.group_tombstones(self.group_id, self.members, self.resolved_regexes)

    def cancel_timers(self, timers: TimerTable) -> None:
        """See `Group`."""
        for member_id in self.members:
            keys.cancel_all(timers, self._journal, self.group_id, member_id)

    # -- queries --------------------------------------------------------------------------------

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member with this instance id; None if it does not exist."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Assignment:
        """Return the target assignment of a member.

        If a static member has a new member id, return the target of its previous member id.
        """
        if member.instance_id is None:
            return self.target(member.member_id)
        former = self.static_members.get(member.instance_id)
        return NO_ASSIGNMENT if former is None else self.target(former)

    def owner_epoch(self, topic_id: bytes, partition: int) -> int:
        """Return the member epoch of the partition's owner; -1 if the partition has no owner."""
        return self._owner_epochs.get(topic_id, {}).get(partition, NO_OWNER)

    def subscribed_topics(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics that a member subscribes to. An unresolved pattern has no topics."""
        if not member.topic_regex:
            return member.topic_names
        return member.topic_names | self.resolved_regexes.get(member.topic_regex, UNRESOLVED).topics

    def subscribed_topics_in_order(self, member: ConsumerMember) -> list[str]:
        """Return the subscribed topics in the order of Apache Kafka's sets.

        If the member has a pattern, this is the order of Kafka's `UnionSet`. The names and the
        pattern's topics are two sets. The larger set comes first, then the rest of the other set.
        """
        names = java_set_order(member.topic_names)
        if not member.topic_regex:
            return names
        matches = java_set_order(self.resolved_regexes.get(member.topic_regex, UNRESOLVED).topics)
        larger, smaller = (names, matches) if len(names) > len(matches) else (matches, names)
        return list(dict.fromkeys((*larger, *smaller)))

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether another member still owns a partition of the member's target."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, {})
            and self.owner_epoch(topic_id, partition) != NO_OWNER
            for topic_id, partitions in self.target(member.member_id).items()
            for partition in partitions
        )

    def has_only_classic_members(self, without: Iterable[ConsumerMember]) -> bool:
        """Return whether all members except the members in `without` use the classic protocol."""
        excluded = list(without)
        classic = sum(each.uses_classic_protocol for each in excluded)
        remaining = len(self.members) - len(excluded)
        return self.classic_member_count - classic == remaining

    def supports_classic(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return whether a classic member with these protocols can join the group."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        if not self.members:
            return any(True for _ in protocols)
        return any(
            self.classic_protocol_counts.get(name, 0) == self.classic_member_count
            for name in protocols
        )

    # -- counts after a change of members -------------------------------------------------------

    def topic_counts_with(
        self, before: ConsumerMember | None, after: ConsumerMember | None
    ) -> dict[str, TopicCount]:
        """Return the counts after `before` is replaced by `after`.

        `before` is None if the member is added. `after` is None if the member is removed.
        """
        counts = dict(self.topic_counts)
        if before is not None:
            adjust_all(counts, before.topic_names, names=-1)
        if after is not None:
            adjust_all(counts, after.topic_names, names=1)
        old_regex = before.topic_regex if before is not None else None
        new_regex = after.topic_regex if after is not None else None
        if old_regex and old_regex != new_regex and self.regex_counts.get(old_regex) == 1:
            gone = self.resolved_regexes.get(old_regex, UNRESOLVED)
            adjust_all(counts, gone.topics, regexes=-1)
        return counts

    def topic_counts_without(
        self, members: Iterable[ConsumerMember], regexes: Iterable[str]
    ) -> dict[str, TopicCount]:
        """Return the counts after members and patterns are removed."""
        counts = dict(self.topic_counts)
        for member in members:
            adjust_all(counts, member.topic_names, names=-1)
        for regex in regexes:
            adjust_all(counts, self.resolved_regexes.get(regex, UNRESOLVED).topics, regexes=-1)
        return counts

    def regex_counts_with(
        self, before: ConsumerMember | None, after: ConsumerMember | None
    ) -> dict[str, int]:
        """Return the number of members per pattern after `before` is replaced by `after`."""
        counts = dict(self.regex_counts)
        for member, step in ((before, -1), (after, 1)):
            if member is not None and member.topic_regex:
                _adjust(counts, member.topic_regex, step)
        return counts

    def preferred_assignor(self) -> str | None:
        """Return the assignor that most members request; None if no member requests an assignor.

        If several assignors have the same count, the order of Kafka's table decides.
        """
        counts = self.assignor_counts
        return max(self._assignors_in_order(), key=counts.__getitem__, default=None)

    def preferred_assignor_with(self, before: ConsumerMember, after: ConsumerMember) -> str | None:
        """Return the preferred assignor after `before` is replaced by `after`.

        The order of the assignors is the same as in Apache Kafka, which changes a copy of the table
        of counts.
        """
        counts = dict(self.assignor_counts)
        table = JavaHashTable(
            java_hash, roomy_capacity(len(counts)) if counts else DEFAULT_CAPACITY
        )
        for name in self._assignors_in_order():
            table.put(name)
        for vote, step in ((before.server_assignor, -1), (after.server_assignor, 1)):
            if vote is not None:
                _adjust(counts, vote, step)
                table.compute(vote, is_kept=vote in counts)
        return max(table, key=counts.__getitem__, default=None)

    def _assignors_in_order(self) -> list[str]:
        return timeline_order(self.assignor_counts, TIMELINE_CAPACITY_MIN)

    # -- replay ---------------------------------------------------------------------------------

    def set_has_partition_metadata(self, has: bool) -> None:
        """Set whether the log has a record from before Kafka 4.1."""
        self._journal.assign(self, "has_partition_metadata", has)

    def update_member(self, member: ConsumerMember) -> None:
        """Add or replace a member."""
        before = self._put_member(member)
        self._count(before, -1)
        self._count(member, 1)
        if before is not None:
            self._release(before.assigned, before.member_epoch)
            self._release(before.pending_revocation, before.member_epoch)
        self._own(member.assigned, member.member_epoch)
        self._own(member.pending_revocation, member.member_epoch)
        if member.instance_id is not None:
            self._journal.put(self.static_members, member.instance_id, member.member_id)

    def remove_member(self, member_id: str) -> None:
        """Remove a member."""
        member = self._drop_member(member_id)
        if member is None:
            return
        self._count(member, -1)
        self._release(member.assigned, member.member_epoch)
        self._release(member.pending_revocation, member.member_epoch)
        if member.instance_id is not None:
            self._journal.remove(self.static_members, member.instance_id)

    def set_resolved_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Set the topics of a pattern. If `resolved` is None, remove the pattern."""
        before = self._journal.remove(self.resolved_regexes, regex)
        if before is not None:
            self._count_topics(before.topics, regexes=-1)
        if resolved is not None:
            self._journal.put(self.resolved_regexes, regex, resolved)
            self._count_topics(resolved.topics, regexes=1)

    def _count(self, member: ConsumerMember | None, step: int) -> None:
        if member is None:
            return
        if member.topic_regex:
            self._adjust(self.regex_counts, member.topic_regex, step)
        if member.server_assignor is not None:
            self._adjust(self.assignor_counts, member.server_assignor, step)
        if member.uses_classic_protocol:
            count = self.classic_member_count + step
            self._journal.assign(self, "classic_member_count", count)
            for protocol in member.classic_protocols:
                self._adjust(self.classic_protocol_counts, protocol.name, step)

    def _adjust(self, counts: dict[str, int], name: str, step: int) -> None:
        count = counts.get(name, 0) + step
        if count > 0:
            self._journal.put(counts, name, count)
        else:
            self._journal.remove(counts, name)

    def _own(self, held: HeldPartitions, epoch: int) -> None:
        for topic_id, partitions in held.items():
            owners = self._owner_epochs.get(topic_id)
            if owners is None:
                owners = {}
                self._journal.put(self._owner_epochs, topic_id, owners)
            for partition in partitions:
                other = owners.get(partition)
                if self._journal.recording:  # a compacted log may lack the record of the revocation
                    assert other is None or other < epoch, f"{partition} has an owner in {other}"
                self._journal.put(owners, partition, epoch)

    def _release(self, held: HeldPartitions, epoch: int) -> None:
        """Remove the owner of each partition, unless the owner has another epoch."""
        for topic_id, partitions in held.items():
            owners = self._owner_epochs.get(topic_id)
            if owners is None:
                continue
            for partition in partitions:
                if owners.get(partition) == epoch:
                    self._journal.remove(owners, partition)
            if not owners:
                self._journal.remove(self._owner_epochs, topic_id)


def _adjust(counts: MutableMapping[str, int], name: str, step: int) -> None:
    count = counts.get(name, 0) + step
    if count > 0:
        counts[name] = count
    else:
        counts.pop(name, None)
