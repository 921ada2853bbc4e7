"""CPU cost of producing: CPU seconds of the broker per gigabyte, for records of three sizes.

Batches of 64 KB, acks=all, idempotent as the Java client is by default, one partition, random
bytes. A gigabyte is 10⁹ bytes of record values.
"""

from __future__ import annotations

from bench.environment import Environment
from bench.figures import Figure
from bench.measures.producing import measure_produce

BYTES_BY_SIZE = {100: 200_000_000, 1000: 500_000_000, 10_000: 1_000_000_000}
"""Record size to bytes in a round: a few seconds each."""
LIMIT = 0.5


def run(environment: Environment) -> list[Figure]:
    """See the module."""
    figures: list[Figure] = []
    for size, amount in BYTES_BY_SIZE.items():
        title = f"{size} B records"
        figures += measure_produce(
            environment, "produce", title, LIMIT, mean_size=size, amount=amount, size=size
        )
    return figures
