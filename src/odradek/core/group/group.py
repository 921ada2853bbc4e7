"""The common interface of all group types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.timers import TimerTable

if TYPE_CHECKING:
    from odradek.core.group.offsets.store import CommittedOffset

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose members consume topics."""


class GroupType(Enum):
    """The group types, named as in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Requester(NamedTuple):
    """The client that sent a request."""

    client_id: str
    host: str
    """The client's address as Kafka shows it, with a leading slash."""
    api_version: int


class Committer(NamedTuple):
    """The member identity in an OffsetCommit request."""

    member_id: str
    group_instance_id: str | None
    generation_or_epoch: int
    is_transactional: bool
    api_version: int


ValidatePartition = Callable[[str, bytes, int], None]
"""(topic, topic id, partition): raises if a commit of it is stale."""
ExpiryBase = Callable[["CommittedOffset"], int]
"""Returns the time from which the retention of an offset counts."""


class Group(ABC):
    """One group. The `validate_*` methods raise `ApiError` if the operation is not allowed."""

    group_id: str
    type: GroupType

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group_id!r}, {self.state_name})"

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state's name."""

    @property
    @abstractmethod
    def protocol_type_name(self) -> str:
        """The protocol type as it is listed; empty if there is none."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @abstractmethod
    def validate_offset_commit(self, committer: Committer) -> ValidatePartition | None:
        """Check that a client may commit; return a check for each partition, if one is needed."""

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
        """Whether a member subscribes to the topic, so that its offsets are in use."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group."""

    @abstractmethod
    def cancel_timers(self, timers: TimerTable) -> None:
        """Cancel the timers of the group."""

    @abstractmethod
    def offset_expiry_base(self) -> ExpiryBase | None:
        """The time from which the retention of offsets counts; None if they do not expire."""
