"""The longest time for which our event loop did nothing else, over all that was run before.

Apache Kafka has threads instead and no such figure. How late a bare timer was meanwhile tells what
of it is the machine's.
"""

from __future__ import annotations

from compat.lab.odradek_node import metric

from bench.environment import Environment
from bench.figures import Figure, Quantity

METRIC = "odradek_loop_pause_seconds_max"
PAUSE = Quantity("longest pause of the loop", "ms")
STANDSTILL = Quantity("a bare timer late by at most", "ms")


def run(environment: Environment) -> list[Figure]:
    """See the module."""
    pause, standstill = Figure("loop_pause", PAUSE), Figure("loop_pause", STANDSTILL)
    late_ms = environment.longest_standstill_ms()
    for contender in environment.contenders:
        if contender.metrics_port is None:
            continue
        seconds = metric(contender.metrics_port, METRIC)
        if seconds is not None:
            pause.values[contender.role] = [seconds * 1000]
            standstill.values[contender.role] = [late_ms]
            print(
                f"{'loop_pause':16} {contender.broker.name}: {seconds * 1000:.1f} ms, "
                f"a bare timer beside it {late_ms:.1f} ms",
                flush=True,
            )
    return [pause, standstill] if pause.values else []
