"""The common interface of all group types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.timers import TimerTable

if TYPE_CHECKING:
    from odradek.core.group.offset_store import CommittedOffset

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of classic groups whose members are consumers."""


class GroupType(Enum):
    """The group types, named as in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


Visible = Callable[[Collection[str]], Collection[str]]
"""Returns which of these topics a client may see."""


class Requester(NamedTuple):
    """The client that sent a request."""

    client_id: str
    host: str
    """The client's address, with a leading slash as in Apache Kafka."""
    api_version: int
    visible: Visible | None = None
    """None if the client may see all topics."""


class Committer(NamedTuple):
    """The member identity in an OffsetCommit request."""

    member_id: str
    group_instance_id: str | None
    generation_or_epoch: int
    is_transactional: bool
    api_version: int


ValidatePartition = Callable[[str, bytes, int], None]
"""Checks one partition of an offset commit. The arguments are topic, topic id and partition.

Raises `ApiError` if the member's epoch is stale for this partition.
"""
ExpiryBase = Callable[["CommittedOffset"], int]
"""Returns the time at which the retention of an offset begins, in milliseconds since 1970."""


class Group(ABC):
    """One group. The `validate_*` methods raise `ApiError` if the operation is not allowed."""

    group_id: str
    type: GroupType

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group_id!r}, {self.state_name})"

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The name of the group's state in responses."""

    @property
    @abstractmethod
    def protocol_type_name(self) -> str:
        """The protocol type in ListGroups responses; empty if the group has none."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @abstractmethod
    def validate_offset_commit(self, committer: Committer) -> ValidatePartition | None:
        """Check that a client may commit offsets.

        Return a function that checks each partition, or None if this is not needed.
        """

    @abstractmethod
    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check that a client may fetch offsets."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Check that offsets may be deleted."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Check that the group may be deleted."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic. Then its offsets do not expire."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that delete the group."""

    @abstractmethod
    def cancel_timers(self, timers: TimerTable) -> None:
        """Cancel the timers of the group."""

    @property
    def expires(self) -> bool:
        """Whether the group is deleted when it is empty and has no offsets."""
        return True

    @abstractmethod
    def offset_expiry_base(self) -> ExpiryBase | None:
        """Return the function for the time at which an offset's retention begins.

        Return None if no offset of the group expires now.
        """
