"""Measures the broker's CPU seconds per produced gigabyte, for records of three sizes.

The Java producer sends random bytes to one partition, in batches of 64 KB with acks=all. It is
idempotent by default. A gigabyte is 10⁹ bytes of record values.
"""

from __future__ import annotations

from bench.environment import Environment
from bench.figures import Figure
from bench.measures.producing import measure_produce

BYTES_BY_SIZE = {100: 200_000_000, 1000: 500_000_000, 10_000: 1_000_000_000}
"""The number of bytes in a round by record size. A round takes a few seconds."""
LIMIT = 0.5


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    figures: list[Figure] = []
    for size, amount in BYTES_BY_SIZE.items():
        title = f"{size} B records"
        figures += measure_produce(
            environment, "produce", title, LIMIT, mean_size=size, amount=amount, size=size
        )
    return figures
