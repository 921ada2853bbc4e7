"""A topic of a thousand partitions."""

from __future__ import annotations

from compat.driver import Record
from compat.scenarios.stage import Stage, equal, scenario

PARTITIONS = 1000


@scenario("1 000 partitions")
def thousand_partitions(stage: Stage) -> None:
    """One record into each of 1 000 partitions, all read back by one consumer."""
    topic = stage.topic(partitions=PARTITIONS)
    equal(stage.driver.partitions(topic), PARTITIONS, "partitions")
    records = [Record(str(n).encode(), partition=n) for n in range(PARTITIONS)]
    equal(stage.driver.produce(topic, records), [0] * PARTITIONS, "offsets")
    read = stage.driver.read(topic, PARTITIONS, partitions=range(PARTITIONS), timeout_seconds=40)
    got = sorted((record.partition, record.value) for record in read if record.value)
    equal(got, [(n, str(n).encode()) for n in range(PARTITIONS)], "what was read")
    stage.driver.delete_topic(topic)
