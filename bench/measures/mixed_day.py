"""Measures a mixed load ("a mixed day"): four loads at the same time, for twenty seconds.

- A producer sends 40 000 records of 40 to 160 bytes per second, with lz4, to six partitions.
- A group member reads the newest of these records, and commits after each poll.
- A consumer replays another topic at 50 MB/s.
- Another group commits 200 times per second.

The amount of work is fixed, so the processor seconds of the brokers can be compared. Latency is the
time from the moment at which a record was due to its acknowledgement.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity
from bench.measures.producing import PROPERTIES as BULK_PROPERTIES
from bench.payloads import UNIFORM

PARTITIONS = 6
SECONDS = 20
WORK = {
    "records_per_second": 40_000,
    "replay_bytes_per_second": 50_000_000,
    "commits_per_second": 200,
}
REPLAYED_BYTES, REPLAYED_SIZE = 500_000_000, 1000
PROPERTIES = {"acks": "all", "compression.type": "lz4"}
CPU = Quantity("CPU per 20 s of a mixed day", "s", 1.0)
P50 = Quantity("acknowledgement, p50", "ms", primary=False)
P99 = Quantity("acknowledgement, p99", "ms", 1.0)


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    seconds = environment.scaled(SECONDS)
    with contextlib.ExitStack() as stack:
        replayed = {}
        for contender in environment.contenders:
            topic = stack.enter_context(environment.topic(contender))
            records = environment.scaled(REPLAYED_BYTES) // REPLAYED_SIZE
            environment.load(
                contender,
                "produce",
                topic=topic,
                records=records,
                size=REPLAYED_SIZE,
                properties=BULK_PROPERTIES,
            )
            replayed[contender.role] = topic

        def one_round(contender: Contender) -> Mapping[str, float]:
            with environment.topic(contender, PARTITIONS) as topic:
                meter = CpuMeter(contender.broker)
                done = environment.load(
                    contender,
                    "mixed_day",
                    topic=topic,
                    replayed=replayed[contender.role],
                    payloads=str(environment.payloads(UNIFORM)),
                    seconds=seconds,
                    properties=PROPERTIES,
                    **WORK,
                )
                spent = meter.seconds()
            return {
                CPU.name: spent * SECONDS / seconds,
                P50.name: done["p50_ms"],
                P99.name: done["p99_ms"],
            }

        return environment.play("mixed_day", [CPU, P50, P99], one_round)
