"""Assignors: compute target assignments, exactly the same ones as Apache Kafka.

`range` gives each member a contiguous range of every topic, so that a member gets partitions with
the same numbers in several topics. `uniform` distributes partitions evenly and moves as few as
possible; there is another algorithm for members that subscribe to different topics
(`uniform_heterogeneous`).
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.consumer.assignors.group_spec import Assignor, GroupSpec, MemberSpec
from odradek.core.group.consumer.assignors.range import assign_ranges
from odradek.core.group.consumer.assignors.uniform import assign_uniformly

__all__ = ["ASSIGNORS", "Assignor", "GroupSpec", "MemberSpec", "configured_assignors"]

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""Assignors by the name that members send."""

_PACKAGE = "org.apache.kafka.coordinator.group.assignor."
_NAMES_BY_CLASS = {
    _PACKAGE + "UniformAssignor": "uniform",
    _PACKAGE + "RangeAssignor": "range",
}


def configured_assignors(setting: Iterable[str]) -> list[str]:
    """Return the names in `group.consumer.assignors`, which may have Kafka's class names too.

    The first one is the default. Other Java classes are not supported.
    """
    names = (_NAMES_BY_CLASS.get(each, each) for each in setting)
    return [each for each in names if each in ASSIGNORS]
