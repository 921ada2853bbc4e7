"""The input of an assignor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from odradek.core.group.consumer.member import Assignment


class MemberSpec(NamedTuple):
    """A member: its topics, and what it shall have so far."""

    topic_ids: AbstractSet[bytes]
    """Those that exist, in the order in which Apache Kafka goes through their names."""
    target: Assignment
    instance_id: str | None = None
    topic_name_count: int = 0
    """How many topics the member subscribes to, those included that do not exist."""


class GroupSpec(NamedTuple):
    """A group. Members come in an order by which equal claims are settled."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Of every topic that a member subscribes to."""
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""By member id; members that shall have nothing may be left out."""
