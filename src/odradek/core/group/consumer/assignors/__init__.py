"""Assignors compute target assignments. The results are exactly the same as in Apache Kafka.

- `range` gives each member consecutive partitions of every topic. So a member gets partitions with
  the same numbers in several topics.
- `uniform` distributes partitions evenly and moves as few partitions as possible. If members
  subscribe to different topics, it uses another algorithm (`uniform_heterogeneous`).
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.consumer.assignors.group_spec import Assignor, GroupSpec, MemberSpec
from odradek.core.group.consumer.assignors.range import assign_ranges
from odradek.core.group.consumer.assignors.uniform import assign_uniformly

__all__ = ["ASSIGNORS", "Assignor", "GroupSpec", "MemberSpec", "configured_assignors"]

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""Assignors by name. Members request an assignor by its name."""

_PACKAGE = "org.apache.kafka.coordinator.group.assignor."
_NAMES_BY_CLASS = {
    _PACKAGE + "UniformAssignor": "uniform",
    _PACKAGE + "RangeAssignor": "range",
}


def configured_assignors(setting: Iterable[str]) -> list[str]:
    """Return the names of the assignors in the setting `group.consumer.assignors`.

    The setting may also contain the class names of Kafka's assignors. Other classes are ignored,
    because Java classes are not supported. The first assignor is the default.
    """
    names = (_NAMES_BY_CLASS.get(each, each) for each in setting)
    return [each for each in names if each in ASSIGNORS]
