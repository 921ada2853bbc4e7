"""Producing and consuming."""

from __future__ import annotations

from compat.driver import Record
from compat.scenarios.stage import Stage, equal, same_contents, scenario


@scenario("produce and consume")
def produce_and_consume(stage: Stage) -> None:
    """200 records over 3 partitions come back with their offsets, in order."""
    topic = stage.topic(partitions=3)
    records = [
        Record(value=f"value {n}".encode(), key=f"key {n}".encode(), partition=n % 3)
        for n in range(200)
    ]
    offsets = stage.driver.produce(topic, records)
    equal(offsets, [n // 3 for n in range(200)], "offsets of the acknowledgements")
    read = stage.driver.read(topic, 200, partitions=[0, 1, 2])
    for partition in range(3):
        mine = [record for record in read if record.partition == partition]
        same_contents(mine, records[partition::3], f"partition {partition}")
        equal([record.offset for record in mine], list(range(len(mine))), "offsets read")


@scenario("read from the middle")
def read_from_the_middle(stage: Stage) -> None:
    """Reading starts at the asked offset although it lies inside a batch."""
    topic = stage.topic()
    records = [Record(value=str(n).encode()) for n in range(50)]
    stage.driver.produce(topic, records)
    read = stage.driver.read(topic, 13, start=37)
    equal([record.offset for record in read], list(range(37, 50)), "offsets read")
    same_contents(read, records[37:], "records from 37 on")


@scenario("automatic topic")
def automatic_topic(stage: Stage) -> None:
    """Producing to a topic that is not there creates it."""
    topic = stage.name()
    equal(stage.driver.produce(topic, [Record(value=b"first")]), [0], "offset")
    same_contents(stage.driver.read(topic, 1), [Record(value=b"first")], "the record")
