"""A member of a consumer group. Members are immutable, so a change creates a new object."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from odradek.core.group.modern.assignment import JOIN_EPOCH, LEAVE_EPOCH, Assignment, with_epochs
from odradek.wire.generated.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from odradek.wire.generated.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)

STATIC_LEAVE_EPOCH = -2
"""In a heartbeat: a static member leaves temporarily."""

HeldPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which the partition was assigned to the member."""

NOTHING_HELD: HeldPartitions = {}


class MemberState(IntEnum):
    """The state of a member, see the package. The numbers are the same as in the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, _number: object) -> MemberState:
        """A newer coordinator wrote a state that this version does not have."""
        return cls.UNKNOWN


class ConsumerMember(NamedTuple):
    """One member. See the package for epochs and states."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: HeldPartitions = NOTHING_HELD
    pending_revocation: HeldPartitions = NOTHING_HELD
    """The partitions that the member must revoke before it gets a higher epoch."""
    classic: ClassicMemberMetadata | None = None
    """Data from JoinGroup if the member uses the classic protocol, otherwise None."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has its target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    @property
    def must_revoke(self) -> bool:
        """Whether the member must revoke partitions before it gets a higher epoch."""
        return self.state is MemberState.UNREVOKED_PARTITIONS

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether the member uses the classic protocol (JoinGroup and SyncGroup)."""
        return self.classic is not None

    @property
    def classic_protocols(self) -> list[ClassicProtocol]:
        """The protocols in the JoinGroup request of a classic member."""
        assert self.classic is not None
        return self.classic.supported_protocols

    def moved_to(self, member_epoch: int) -> ConsumerMember:
        """Return the member in another epoch. Its current epoch becomes the previous epoch."""
        return self._replace(member_epoch=member_epoch, previous_member_epoch=self.member_epoch)

    def epoch_of(self, topic_id: bytes, partition: int) -> int | None:
        """Return the epoch in which a partition was assigned to the member.

        Return None if the member neither owns the partition nor must revoke it.
        """
        for held in (self.assigned, self.pending_revocation):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """Return the member after the replay of its subscription record."""
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_current_assignment(
        self, value: ConsumerGroupCurrentMemberAssignmentValue
    ) -> ConsumerMember:
        """Return the member after the replay of its current assignment record."""
        return self._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_held(value.assigned_partitions, value.member_epoch),
            pending_revocation=_held(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> ConsumerMember:
        """Return the member after the replay of the tombstone of its current assignment."""
        return self._replace(
            member_epoch=LEAVE_EPOCH,
            previous_member_epoch=LEAVE_EPOCH,
            assigned={},
            pending_revocation={},
        )


def _held(topics: list[TopicPartitions], member_epoch: int) -> HeldPartitions:
    """Return the partitions with their epochs."""
    held: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        held[topic.topic_id] = with_epochs(topic.partitions, epochs, max(member_epoch, 0))
    return held


def with_epoch(assignment: Assignment, epoch: int) -> HeldPartitions:
    """Return the assignment with the same epoch for all partitions."""
    return {
        topic_id: dict.fromkeys(sorted(partitions), epoch)
        for topic_id, partitions in assignment.items()
    }
