"""The partitions of a task are looked at in the order of Java's HashMap."""

from __future__ import annotations

from odradek.core.streams.model.java_order import partition_order

REPARTITION = "app-KSTREAM-REPARTITION-0000000001-repartition"


def test_partitions_of_one_place_are_in_the_order_of_their_topics() -> None:
    # With max.task.idle.ms, the order decides for which empty partition a task waits first.
    assert partition_order([("t0", 0), ("t1", 0), (REPARTITION, 0)]) == [
        ("t0", 0),
        (REPARTITION, 0),
        ("t1", 0),
    ]
