"""The committed offsets of a group, and the identity of the member that commits them (KIP-447)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A member of a group in a generation, or only a group (`ConsumerGroupMetadata` in Kafka).

    With the defaults, the coordinator does not check the member. Then a zombie can commit offsets.
    """

    group_id: str
    generation_id: int = -1
    """The generation of a classic member, or the epoch of a KIP-848 member."""
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset to read, the leader epoch of the previous record (or -1), and metadata."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
