"""Assignors: who shall have which partitions. They decide as Apache Kafka's do, to the partition.

`range` gives each member a contiguous range of every topic, so that equally numbered partitions
of several topics meet in one member. `uniform` spreads evenly what there is and moves as little as
it can; members that subscribe to different topics make that another problem
(`uniform_heterogeneous`).
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.group.consumer.assignors.group_spec import Assignor, GroupSpec, MemberSpec
from odradek.core.group.consumer.assignors.range import assign_ranges
from odradek.core.group.consumer.assignors.uniform import assign_uniformly

__all__ = ["ASSIGNORS", "Assignor", "GroupSpec", "MemberSpec", "configured_assignors"]

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the name that members ask for."""

_PACKAGE = "org.apache.kafka.coordinator.group.assignor."
_NAMES_BY_CLASS = {
    _PACKAGE + "UniformAssignor": "uniform",
    _PACKAGE + "RangeAssignor": "range",
}


def configured_assignors(setting: Iterable[str]) -> list[str]:
    """Names out of `group.consumer.assignors`, which may hold Kafka's class names too.

    The first one is for members that ask for none. Classes of others cannot run here.
    """
    names = (_NAMES_BY_CLASS.get(each, each) for each in setting)
    return [each for each in names if each in ASSIGNORS]
