"""What groups of all kinds have in common."""

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
    """The kinds of groups, named as in ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Requester(NamedTuple):
    """The client behind a request, as far as a group cares."""

    client_id: str
    host: str
    """As Kafka shows addresses of clients: with a slash before them."""
    api_version: int


class Committer(NamedTuple):
    """Who commits offsets, as the request says."""

    member_id: str
    group_instance_id: str | None
    generation_or_epoch: int
    is_transactional: bool
    api_version: int


ValidatePartition = Callable[[str, bytes, int], None]
"""(topic, topic id, partition): raises if a commit of it is stale."""
ExpiryBase = Callable[["CommittedOffset"], int]
"""From when the retention of an offset counts."""


class Group(ABC):
    """One group. Methods that refuse raise `ApiError`."""

    group_id: str
    type: GroupType

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group_id!r}, {self.state_name})"

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state as it is shown."""

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
        """Refuse those who may not commit; else what each partition has to pass, if anything."""

    @abstractmethod
    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse those who may not see offsets."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Refuse while offsets may not be deleted."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Refuse while the group may not be deleted."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, so that its offsets are in use."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that forget the group."""

    @abstractmethod
    def cancel_timers(self, timers: TimerTable) -> None:
        """Forget what was scheduled for the group."""

    @abstractmethod
    def offset_expiry_base(self) -> ExpiryBase | None:
        """From when offsets expire; None while none do."""
