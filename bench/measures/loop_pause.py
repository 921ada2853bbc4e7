"""The longest time for which our event loop did nothing else, over all that was run before.

Apache Kafka has threads instead and no such figure.
"""

from __future__ import annotations

from compat.lab.odradek_node import metric

from bench.environment import Environment
from bench.figures import Figure, Quantity

METRIC = "odradek_loop_pause_seconds_max"
PAUSE = Quantity("longest pause of the loop", "ms")


def run(environment: Environment) -> list[Figure]:
    """See the module."""
    figure = Figure("loop_pause", PAUSE)
    for contender in environment.contenders:
        if contender.metrics_port is None:
            continue
        pause = metric(contender.metrics_port, METRIC)
        if pause is not None:
            figure.values[contender.role] = [pause * 1000]
            print(f"{'loop_pause':16} {contender.broker.name}: {pause * 1000:.1f} ms", flush=True)
    return [figure] if figure.values else []
