"""The longest time for which our event loop did nothing else, over all that was run before.

Apache Kafka has threads instead and no such figure. Told apart are the seconds in which the host of
the machine took its processors away (`bench.pauses`), and how late a bare timer was meanwhile.
"""

from __future__ import annotations

from bench.environment import Environment
from bench.figures import OURS, Figure, Quantity

PAUSE = Quantity("longest pause of the loop", "ms")
UNDISTURBED = Quantity("longest pause, the host taking nothing", "ms", most=20.0)
DISTURBED = Quantity("seconds in which the host took time", "%")
STANDSTILL = Quantity("a bare timer late by at most", "ms")


def run(environment: Environment) -> list[Figure]:
    """See the module."""
    late_ms = environment.longest_standstill_ms()
    seconds = environment.pauses()
    undisturbed = [each.pause_ms for each in seconds if not each.was_disturbed]
    if not undisturbed:
        return []
    values = {
        PAUSE: max(each.pause_ms for each in seconds),
        UNDISTURBED: max(undisturbed),
        DISTURBED: 100 * (1 - len(undisturbed) / len(seconds)),
        STANDSTILL: late_ms,
    }
    told = ", ".join(f"{quantity.name} {value:.4g}" for quantity, value in values.items())
    print(f"{'loop_pause':16} {environment.names[OURS]:20} {told}", flush=True)
    return [Figure("loop_pause", quantity, {OURS: [value]}) for quantity, value in values.items()]
