"""Reports the longest pause of Odradek's event loop during all earlier experiments.

Apache Kafka has threads, so it has no such figure. Seconds in which the machine also delayed a bare
timer (`bench.pauses`) are counted separately.
"""

from __future__ import annotations

from bench.environment import Environment
from bench.figures import OURS, Figure, Quantity

PAUSE = Quantity("longest pause of the loop", "ms")
UNDISTURBED = Quantity("longest pause, the machine undisturbed", "ms", most=20.0)
DISTURBED = Quantity("seconds in which it was disturbed", "%")
STANDSTILL = Quantity("a bare timer late by at most", "ms")


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    seconds = environment.pauses()
    undisturbed = [each.pause_ms for each in seconds if not each.was_disturbed]
    if not seconds:
        return []
    values = {
        PAUSE: max(each.pause_ms for each in seconds),
        DISTURBED: 100 * (1 - len(undisturbed) / len(seconds)),
        STANDSTILL: max(each.timer_late_ms for each in seconds),
    }
    if undisturbed:
        values[UNDISTURBED] = max(undisturbed)
    text = ", ".join(f"{quantity.name} {value:.4g}" for quantity, value in values.items())
    print(f"{'loop_pause':16} {environment.names[OURS]:20} {text}", flush=True)
    return [Figure("loop_pause", quantity, {OURS: [value]}) for quantity, value in values.items()]
