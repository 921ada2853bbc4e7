"""The input of an assignor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from odradek.core.group.modern.assignment import Assignment


class MemberSpec(NamedTuple):
    """A member, with its topics and its current target assignment."""

    topic_ids: AbstractSet[bytes]
    """The ids of the subscribed topics that exist, in the order in which Apache Kafka iterates over
    their names."""
    target: Assignment
    instance_id: str | None = None
    topic_name_count: int = 0
    """Number of subscribed topics, including topics that do not exist."""


class GroupSpec(NamedTuple):
    """A group. The order of the members decides if candidates are equal."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Number of partitions of each subscribed topic."""
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""Returns target assignments by member id. Members without partitions may be missing."""
