"""What producing costs the broker: processor seconds per gigabyte, for records of three sizes.

Batches of 64 KB, acks=all, idempotent as the Java client is by default, one partition, random
bytes. A gigabyte is 10⁹ bytes of record values.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity

PROPERTIES = {
    "acks": "all",
    "batch.size": "65536",
    "linger.ms": "20",
    "buffer.memory": str(64 << 20),
    "delivery.timeout.ms": "120000",
}
BYTES_BY_SIZE = {100: 200_000_000, 1000: 500_000_000, 10_000: 1_000_000_000}
"""Record size to bytes in a round: a few seconds each."""
LIMIT = 0.5


def run(environment: Environment) -> list[Figure]:
    """See the module."""
    figures: list[Figure] = []
    for size, amount in BYTES_BY_SIZE.items():
        cpu = Quantity(f"CPU, {size} B records", "s/GB", LIMIT)
        speed = Quantity(f"throughput, {size} B records", "MB/s", higher_is_better=True)
        records = environment.scaled(amount) // size

        def one_round(
            contender: Contender, size: int = size, records: int = records
        ) -> Mapping[str, float]:
            with environment.topic(contender) as topic:
                environment.touch_memory(size * records * 5 // 4)
                meter = CpuMeter(contender.broker)
                done = environment.load(
                    contender, "produce", topic=topic, records=records, size=size,
                    properties=PROPERTIES,
                )  # fmt: skip
                spent = meter.seconds()
            return {
                f"CPU, {size} B records": spent / done["bytes"] * 1e9,
                f"throughput, {size} B records": done["bytes"] / done["seconds"] / 1e6,
            }

        figures += environment.play("produce", [cpu, speed], one_round)
    return figures
