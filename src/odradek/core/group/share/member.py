"""A member of a share group. Members are immutable, so a change creates a new object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from odradek.core.group.modern.assignment import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NO_ASSIGNMENT,
    Assignment,
    ordered_set,
)
from odradek.wire.generated.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
)
from odradek.wire.generated.share_group_member_metadata_value import (
    ShareGroupMemberMetadataValue,
)

STABLE: Final = 0
"""The only state of a member."""


class TopicPartitions(Protocol):
    """The partitions of a topic in a record."""

    topic_id: bytes
    partitions: list[int]


def assignment_of(topics: Iterable[TopicPartitions]) -> Assignment:
    """Return the assignment in a record. A topic may have no partition, as in Apache Kafka."""
    return {each.topic_id: ordered_set(each.partitions) for each in topics}


class ShareMember(NamedTuple):
    """One member."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    state: int = STABLE
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Assignment = NO_ASSIGNMENT

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has its target assignment of this epoch."""
        return self.state == STABLE and self.member_epoch == assignment_epoch

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> ShareMember:
        """Return the member after the replay of its subscription record."""
        return self._replace(
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
        )

    def with_current_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
        """Return the member after the replay of its current assignment record."""
        return self._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=value.state,
            assigned=assignment_of(value.assigned_partitions),
        )

    def without_assignment(self) -> ShareMember:
        """Return the member after the replay of the tombstone of its current assignment."""
        return self._replace(
            member_epoch=LEAVE_EPOCH, previous_member_epoch=LEAVE_EPOCH, assigned=NO_ASSIGNMENT
        )
