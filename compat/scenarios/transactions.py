"""Transactions: what is committed is seen, at once and whole; nothing else is."""

from __future__ import annotations

from compat.driver import Record
from compat.scenarios.stage import Stage, equal, eventually, same_contents, scenario


def _records(*values: str) -> list[Record]:
    return [
        Record(key=b"k", value=value.encode(), partition=n % 2) for n, value in enumerate(values)
    ]


def _committed(stage: Stage, topic: str, count: int) -> None:
    """Only the records `seen ...` are committed, `count` of them."""
    read = eventually(  # markers follow the answer to a commit
        lambda: stage.driver.read(
            topic, count + 1, partitions=[0, 1], committed=True, timeout_seconds=3
        ),
        lambda records: len(records) == count,
        f"committed records, {count} of them",
    )
    values = sorted(str(record.value) for record in read)
    equal([each for each in values if "seen" not in each], [], "records of no committed one")


@scenario("transactions")
def transactions(stage: Stage) -> None:
    """Of three transactions the one that is aborted is not seen."""
    topic = stage.topic(partitions=2)
    name = stage.name("id")
    stage.driver.transact(name, topic, _records("seen 1", "seen 2"), "commit")
    stage.driver.transact(name, topic, _records("lost 1", "lost 2"), "abort")
    stage.driver.transact(name, topic, _records("seen 3"), "commit")
    _committed(stage, topic, 3)
    markers = [
        batch for index in (0, 1) for batch in stage.batches(topic, index) if batch.is_control
    ]
    equal(len(markers), 5, "markers in both partitions")


@scenario("transactional offsets")
def offsets(stage: Stage) -> None:
    """Offsets of a transaction count when it commits."""
    topic = stage.topic(partitions=2)
    group, name = stage.name("group"), stage.name("id")
    stage.driver.transact(name, topic, _records("seen"), "commit", group=group, offset=7)
    stage.driver.transact(name, topic, _records("lost"), "abort", group=group, offset=9)
    found = eventually(
        lambda: stage.driver.committed(group, topic),
        lambda offsets: offsets == {0: 7},
        "committed offsets",
    )
    equal(found, {0: 7}, "committed offsets")


@scenario("fenced producers")
def fenced(stage: Stage) -> None:
    """A successor of the same transactional id ends what its predecessor left open."""
    topic = stage.topic(partitions=2)
    name = stage.name("id")
    stage.driver.transact(name, topic, _records("lost 1", "lost 2"), "none")
    stage.driver.transact(name, topic, _records("seen"), "commit")
    _committed(stage, topic, 1)
    everything = stage.driver.read(topic, 3, partitions=[0, 1], timeout_seconds=5)
    committed = stage.driver.read(topic, 1, partitions=[0, 1], committed=True)
    same_contents(committed, _records("seen"), "committed records")
    equal(len(everything) in (1, 3), True, "records for those who read all that there is")
