"""Measures the broker's CPU time for records of varied sizes, with each codec.

As in `produce`, the Java producer sends batches of 64 KB with acks=all to one partition. But the
values are cut from JSON events (`bench.payloads`). They have 40 to 160 bytes, or a long-tailed
distribution of sizes up to 10 KB. A gigabyte is 10⁹ bytes of record values before compression. The
last rows are measured without idempotence.
"""

from __future__ import annotations

import statistics

from bench.environment import Environment
from bench.figures import Figure
from bench.measures.producing import PROPERTIES, measure_produce
from bench.payloads import LONG_TAILED, UNIFORM, Shape, draw_values

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
AMOUNTS = {UNIFORM: 200_000_000, LONG_TAILED: 400_000_000}
"""The number of bytes of values in a round, by shape."""
LIMIT, COMPRESSED_LIMIT = 0.5, 0.6


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    figures: list[Figure] = []
    for shape in AMOUNTS:
        for codec in CODECS:
            figures += _measure(environment, shape, codec, is_idempotent=True)
    for codec in ("none", "lz4"):
        figures += _measure(environment, UNIFORM, codec, is_idempotent=False)
    return figures


def _measure(
    environment: Environment, shape: Shape, codec: str, *, is_idempotent: bool
) -> list[Figure]:
    title = f"{shape.title}, {codec}" + ("" if is_idempotent else ", not idempotent")
    return measure_produce(
        environment,
        "varied",
        title,
        LIMIT if codec == "none" else COMPRESSED_LIMIT,
        mean_size=statistics.mean(map(len, draw_values(shape))),
        amount=AMOUNTS[shape],
        properties={
            **PROPERTIES,
            "compression.type": codec,
            "enable.idempotence": str(is_idempotent).lower(),
        },
        payloads=str(environment.payloads(shape)),
    )
