"""The scenarios, written once and run with each client's driver.

A scenario is a function of a `Stage`; importing this package fills `SCENARIOS`, in the order in
which tables show them.
"""

# The order is that of the tables.
# isort: off
from compat.scenarios import (
    produce_and_consume,
    codecs,
    record_shapes,
    sizes,
    delivery,
    transactions,
    timestamps,
    topics,
    groups,
    consumer_groups,
    share_groups,
    many_partitions,
)

# isort: on
from compat.scenarios.stage import SCENARIOS, CheckFailed, Scenario, Stage

__all__ = [
    "SCENARIOS",
    "CheckFailed",
    "Scenario",
    "Stage",
    "codecs",
    "consumer_groups",
    "delivery",
    "groups",
    "many_partitions",
    "produce_and_consume",
    "record_shapes",
    "share_groups",
    "sizes",
    "timestamps",
    "topics",
    "transactions",
]
