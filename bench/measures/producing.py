"""Measures a way to produce: the broker's CPU time, and the throughput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity
from bench.machine import touch_memory

PROPERTIES = {
    "acks": "all",
    "batch.size": "65536",
    "linger.ms": "20",
    "buffer.memory": str(64 << 20),
    "delivery.timeout.ms": "120000",
}
"""The settings of the Java producer for large batches. The producer is idempotent by default."""


def measure_produce(
    environment: Environment,
    bench: str,
    title: str,
    limit: float | None,
    *,
    mean_size: float,
    amount: int,
    properties: Mapping[str, str] = PROPERTIES,
    **arguments: Any,
) -> list[Figure]:
    """Measure the broker's processor seconds per gigabyte of values, and MB/s.

    The names of both quantities end with `title`. A round sends about `amount` bytes, in records of
    `mean_size` bytes on average. `arguments` are the arguments of the command `produce` of
    bench/java/Load.java.
    """
    cpu = Quantity(f"CPU, {title}", "s/GB", limit)
    speed = Quantity(f"throughput, {title}", "MB/s", higher_is_better=True, primary=False)
    records = max(1, int(environment.scaled(amount) / mean_size))

    def one_round(contender: Contender) -> Mapping[str, float]:
        with environment.topic(contender) as topic:
            touch_memory(int(mean_size * records * 5 / 4))
            meter = CpuMeter(contender.broker)
            done = environment.load(
                contender,
                "produce",
                topic=topic,
                records=records,
                properties=dict(properties),
                **arguments,
            )
            spent = meter.seconds()
        return {
            cpu.name: spent / done["bytes"] * 1e9,
            speed.name: done["bytes"] / done["seconds"] / 1e6,
        }

    return environment.play(bench, [cpu, speed], one_round)
