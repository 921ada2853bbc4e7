"""Converts groups between the classic and the consumer protocol while they are in use (KIP-848).

A classic group of consumers becomes a consumer group when a member with the consumer protocol
joins. The other members continue to use JoinGroup and SyncGroup, but now the coordinator computes
their assignments (`classic_members`). The group becomes a classic group again when the last member
with the consumer protocol has left, or was replaced by a member with the classic protocol. The
setting `group.consumer.migration.policy` can forbid each of the two conversions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.group.classic.answers import join_failed
from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.classic.member import NO_ASSIGNMENT, ClassicMember
from odradek.core.group.classic.rebalance import Rebalance
from odradek.core.group.consumer import records
from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.member import ConsumerMember, with_epoch
from odradek.core.group.consumer_protocol import (
    MalformedSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
)
from odradek.core.group.group import CONSUMER_PROTOCOL_TYPE
from odradek.core.group.modern.assignment import Assignment, ordered_set
from odradek.core.group.modern.topics import Topics
from odradek.core.group.state import GroupState
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.java_order import timeline_order
from odradek.wire.generated.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from odradek.wire.generated.sync_group_response import SyncGroupResponse

_DISABLED = "disabled"
_UPGRADE = frozenset(("upgrade", "bidirectional"))
_DOWNGRADE = frozenset(("downgrade", "bidirectional"))


class Migration:
    """Finds consumer groups, and converts them from and to classic groups."""

    def __init__(self, state: GroupState, topics: Topics, rebalance: Rebalance) -> None:
        self._state = state
        self._topics = topics
        self._rebalance = rebalance

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """Return the consumer group with this id.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND: the group does not exist, or has another type.
        """
        group = self._state.group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise _not_found(f"Group {group_id} is not a consumer group.")
        return group

    def group_to_join(self, group_id: str, log: list[CoordinatorRecord]) -> ConsumerGroup:
        """Return the group that a member joins.

        If necessary, create the group or convert a classic group. The new group is registered only
        when `log` is replayed.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND: there is a classic group that cannot be converted.
                UNKNOWN_SERVER_ERROR: the classic group has assigned a partition to two members.
        """
        group = self._state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                return self._upgrade(group, log)
            log.extend(group.tombstones())
            group.cancel_timers(self._state.timers)
        elif group is not None:
            raise _not_found(f"Group {group_id} is not a consumer group.")
        return ConsumerGroup(group_id, self._state.journal)

    def check_classic_may_join(self, group: ConsumerGroup) -> None:
        """Check that a classic member may join a consumer group that has members.

        Raises:
            ApiError: INCONSISTENT_GROUP_PROTOCOL.
        """
        if self._state.config.group_consumer_migration_policy.lower() == _DISABLED:
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Group {group.group_id} takes no classic members: "
                "group.consumer.migration.policy is disabled.",
            )

    # -- upgrade --------------------------------------------------------------------------------

    def _upgrade(self, classic: ClassicGroup, log: list[CoordinatorRecord]) -> ConsumerGroup:
        self._check_upgrade(classic)
        group = self._converted(classic)
        log.extend(classic.tombstones())
        log.extend(_records(group))
        again = ErrorCode.REBALANCE_IN_PROGRESS
        for old in classic.members.values():
            classic.answer_join(old, join_failed(again, old.member_id), self._state.effects)
            classic.answer_sync(old, SyncGroupResponse(error_code=again), self._state.effects)
        self._state.note(classic.group_id, "becomes a consumer group")
        return group

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        config = self._state.config
        why = None
        if config.group_consumer_migration_policy.lower() not in _UPGRADE:
            why = "group.consumer.migration.policy does not allow conversion"
        elif not classic.uses_consumer_protocol:
            why = "its members are not consumers"
        elif len(classic.members) > config.group_consumer_max_size:
            why = "it has more members than group.consumer.max.size"
        if why is not None:
            raise _not_found(f"Group {classic.group_id} stays a classic group: {why}.")

    def _converted(self, classic: ClassicGroup) -> ConsumerGroup:
        """Return the converted group, which is not yet registered.

        Members keep their partitions.
        """
        group = ConsumerGroup(classic.group_id, Journal())
        epoch = classic.generation_id
        group.set_epoch(epoch, 0)
        group.set_assignment_epoch(epoch, 0)
        protocol = classic.protocol_name
        if protocol is None or classic.protocol_support.get(protocol) != len(classic.members):
            protocol = classic.select_protocol()  # the join phase has not ended
        owned: set[tuple[bytes, int]] = set()
        for old in classic.members.values():
            try:
                member, assignment = self._converted_member(old, protocol, epoch)
            except MalformedSubscription as error:
                raise _not_found(
                    f"Group {classic.group_id} stays a classic group: {error}."
                ) from error
            claims = {(topic, each) for topic, those in assignment.items() for each in those}
            if owned & claims:
                raise ApiError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"Group {classic.group_id} has assigned a partition to two members.",
                )
            owned |= claims
            group.set_target(member.member_id, assignment)
            group.update_member(member)
        group.set_epoch(epoch, self._topics.group_hash(group.topic_counts))
        return group

    def _converted_member(
        self, old: ClassicMember, protocol: str, epoch: int
    ) -> tuple[ConsumerMember, Assignment]:
        subscription, _ = read_subscription(old.metadata(protocol))
        assignment: Assignment = {}
        if old.assignment != NO_ASSIGNMENT:
            message = read_assignment(old.assignment)
            if message.user_data:
                raise MalformedSubscription("the user data of its assignor would be lost")
            by_name = self._state.image.topics.by_name
            assignment = {
                by_name[each.topic].id: ordered_set(each.partitions)
                for each in message.assigned_partitions
                if each.topic in by_name and each.partitions
            }
        member = ConsumerMember(
            old.member_id,
            epoch,
            epoch,
            instance_id=old.group_instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            client_id=old.client_id,
            client_host=old.client_host,
            topic_names=frozenset(subscription.topics),
            assigned=with_epoch(assignment, epoch),
            classic=ClassicMemberMetadata(
                session_timeout_ms=old.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in old.protocols
                ],
            ),
        )
        return member, assignment

    # -- downgrade ------------------------------------------------------------------------------

    def can_downgrade_without(
        self, group: ConsumerGroup, members: Collection[ConsumerMember]
    ) -> bool:
        """Return whether the group becomes a classic group when these members have left."""
        remaining = len(group.members) - len(members)
        return (
            remaining > 0
            and group.has_only_classic_members(members)
            and self._may_downgrade(group, remaining)
        )

    def can_downgrade_with(self, group: ConsumerGroup, replaced: ConsumerMember | None) -> bool:
        """Return whether the group becomes a classic group when a static member is replaced.

        `replaced` uses the consumer protocol; the new member id uses the classic protocol.
        """
        return (
            replaced is not None
            and not replaced.uses_classic_protocol
            and group.has_only_classic_members((replaced,))
            and self._may_downgrade(group, len(group.members))
        )

    def _may_downgrade(self, group: ConsumerGroup, member_count: int) -> bool:
        config = self._state.config
        if config.group_consumer_migration_policy.lower() not in _DOWNGRADE:
            self._state.note(
                group.group_id,
                "stays a consumer group: group.consumer.migration.policy does not allow conversion",
            )
            return False
        return member_count <= config.group_max_size

    def downgrade(
        self,
        group: ConsumerGroup,
        log: list[CoordinatorRecord],
        *,
        without: Sequence[ConsumerMember] = (),
        joining: ConsumerMember | None = None,
        reason: str | None = None,
    ) -> None:
        """Replace the group by a classic group immediately. `log` must not be replayed.

        `without` has the members that leave. `joining` is a member that replaces the static member
        with the same instance id, or None. `log` already has the records of `joining`. If `reason`
        is not None, a rebalance begins for this reason.
        """
        state = self._state
        replaced = None if joining is None else group.static_member(joining.instance_id)
        gone = {each.member_id for each in without}
        ids = {each: each for each in group.members}
        if joining is not None and replaced is not None:
            ids[replaced.member_id] = joining.member_id
        log.extend(records.group_tombstones(group.group_id, ids.values(), group.resolved_regexes))
        # The first member becomes the leader.
        members = [
            self._classic_member(group.members[member_id], group.target(member_id))
            for member_id in timeline_order(group.members, group.member_slots)
            if member_id not in gone and group.members[member_id] is not replaced
        ]
        if joining is not None and replaced is not None:
            members.append(self._classic_member(joining, group.target(replaced.member_id)))
        now_ms = state.clock.now_ms()
        classic = ClassicGroup.from_members(group.group_id, now_ms, group.group_epoch, members)
        log.append(classic.record(classic.assignment))
        state.journal.put(state.groups, group.group_id, classic)
        for each in classic.members.values():
            self._rebalance.expect_heartbeat(classic, each)
        state.note(group.group_id, "becomes a classic group")
        if reason is not None:
            self._rebalance.prepare(classic, reason)

    def _classic_member(self, member: ConsumerMember, target: Assignment) -> ClassicMember:
        assert member.classic is not None, "only members of the classic protocol remain"
        by_id = self._state.image.topics.by_id
        protocols = tuple((each.name, bytes(each.metadata)) for each in member.classic_protocols)
        by_name = {
            by_id[topic_id].name: sorted(partitions)
            for topic_id, partitions in target.items()
            if topic_id in by_id
        }
        return ClassicMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.classic.session_timeout_ms,
            CONSUMER_PROTOCOL_TYPE,
            protocols,
            write_assignment(by_name, like=protocols[0][1]),
        )


def _records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return all records of a group, in the order of Apache Kafka."""
    group_id = group.group_id
    members = group.members.values()
    return [
        *(records.member_metadata(group_id, each) for each in members),
        records.group_epoch(group_id, group.group_epoch, group.metadata_hash),
        *(records.target_assignment(group_id, each, group.target(each)) for each in group.members),
        records.target_epoch(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(records.current_assignment(group_id, each) for each in members),
    ]


def _not_found(message: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)
