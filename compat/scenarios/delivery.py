"""Acknowledgements and idempotence."""

from __future__ import annotations

from compat.driver import Record
from compat.scenarios.stage import Stage, equal, eventually, holds, same_contents, scenario

RECORDS = [Record(value=f"record {n}".encode()) for n in range(100)]


def _with_acks(acks: int, name: str) -> None:
    def play(stage: Stage) -> None:
        topic = stage.topic()
        offsets = stage.driver.produce(topic, RECORDS, acks=acks)
        expected = [None] * 100 if acks == 0 else list(range(100))
        equal(offsets, expected, "offsets of the acknowledgements")
        eventually(
            lambda: stage.driver.offset(topic, 0, "latest"),
            lambda end: end == len(RECORDS),
            "end of the log",
        )
        same_contents(stage.driver.read(topic, 100), RECORDS, "records")

    play.__doc__ = f"100 records with acks={name} arrive."
    scenario(f"acks {name}")(play)


_with_acks(0, "0")
_with_acks(1, "1")
_with_acks(-1, "all")


@scenario("idempotence on")
def idempotence_on(stage: Stage) -> None:
    """An idempotent producer gets an id, and its batches carry it."""
    topic = stage.topic(partitions=2)
    records = [Record(value=str(n).encode(), partition=n % 2) for n in range(200)]
    stage.driver.produce(topic, records, idempotent=True)
    read = stage.driver.read(topic, 200, partitions=[0, 1])
    for partition in (0, 1):
        mine = [record for record in read if record.partition == partition]
        same_contents(mine, records[partition::2], f"partition {partition}")
        ids = {batch.producer_id for batch in stage.batches(topic, partition)}
        holds(len(ids) == 1 and min(ids) >= 0, f"producer ids of the batches are {ids}")


@scenario("idempotence off")
def idempotence_off(stage: Stage) -> None:
    """Without idempotence batches carry no producer id."""
    topic = stage.topic()
    stage.driver.produce(topic, RECORDS, idempotent=False)
    same_contents(stage.driver.read(topic, 100), RECORDS, "records")
    ids = {batch.producer_id for batch in stage.batches(topic)}
    equal(ids, {-1}, "producer ids of the batches")
