"""What assignors get and return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek.model.topic_partition import TopicPartition

Topics = Mapping[str, Sequence[frozenset[str]]]
"""The racks of the replicas of each partition, by topic. It has exactly the topics that exist and that
a member is subscribed to."""
Assignments = dict[str, list[TopicPartition]]
"""The assigned partitions by member, with an entry for each member."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as it describes itself when it joins."""

    topics: Sequence[str]
    instance_id: str | None = None
    """The `group.instance.id` of a static member."""
    rack: str = ""
    """Empty if the member names none."""
    owned: Sequence[TopicPartition] = ()
    generation_id: int = -1
    """The generation in which it got the partitions that it owns; -1 if it does not say."""
    user_data: bytes | None = None


Members = Mapping[str, Member]
"""The members by id, in the order of the JoinGroup response."""


def _no_user_data(_owned: Sequence[TopicPartition] | None, _generation_id: int) -> bytes | None:
    return None


@dataclass(frozen=True, slots=True)
class Assignor:
    """One of the values of `partition.assignment.strategy`."""

    name: str
    assign: Callable[[Topics, Members], Assignments]
    user_data: Callable[[Sequence[TopicPartition] | None, int], bytes | None] = _no_user_data
    """Return what a member sends about its last assignment (None if it had none) and its generation."""
    is_cooperative: bool = False
    """Whether members may keep their partitions while they join (KIP-429)."""


def as_java(text: str) -> bytes:
    """Return a key that orders strings as Java does."""
    return text.encode("utf-16-be", "surrogatepass")


def static_first(ids: Iterable[str], members: Members) -> list[str]:
    """Sort members: first static ones by their instance id, then the others by their member id."""

    def key(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, as_java(member_id if instance_id is None else instance_id)

    return sorted(ids, key=key)
