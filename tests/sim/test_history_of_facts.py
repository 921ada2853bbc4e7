"""Anomalies between the transactions of simulated clients."""

from __future__ import annotations

from odradek.model.topic_partition import TopicPartition
from odradek.sim.checks import Contents
from odradek.sim.facts import Facts, Fate, Reading, Transaction
from odradek.sim.history_of_facts import unexpected_anomalies

ONE, OTHER = TopicPartition("ledger", 0), TopicPartition("ledger", 1)


def transaction(
    name: str, *readings: Reading, fate: Fate = Fate.COMMITTED, **values: TopicPartition
) -> Transaction:
    """Return a transaction that has written these values to these partitions."""
    found = Transaction(name, readings=list(readings), fate=fate)
    for value, partition in values.items():
        found.values.setdefault(partition, []).append(value)
    return found


def logs(one: str, other: str = "") -> dict[TopicPartition, Contents]:
    """Return logs with the given values, at the offsets from 0 on."""
    contents = [list(enumerate(each.split())) for each in (one, other)]
    return {
        partition: Contents(values, values)
        for partition, values in zip((ONE, OTHER), contents, strict=True)
    }


def kinds(facts: Facts, found: dict[TopicPartition, Contents]) -> list[str]:
    return [each.partition(":")[0] for each in unexpected_anomalies(facts, found)]


def test_a_processor_that_reads_each_record_once() -> None:
    facts = Facts()
    facts.transactions += [
        transaction("p/1", Reading(ONE, 0, "a"), x=OTHER),
        transaction("p/2", Reading(ONE, 1, "b"), fate=Fate.ABORTED),
        transaction("p/3", Reading(ONE, 1, "b"), fate=Fate.UNKNOWN, y=OTHER),
        transaction("p/4", Reading(ONE, 2, "c"), z=OTHER),
    ]
    assert kinds(facts, logs("a b c", "x y z")) == []


def test_a_record_that_is_processed_twice_or_never() -> None:
    for offset, value, kind in ((0, "a", "nonmonotonic-poll"), (2, "c", "poll-skip")):
        facts = Facts()
        facts.transactions += [
            transaction("p/1", Reading(ONE, 0, "a"), x=OTHER),
            transaction("p/2", Reading(ONE, offset, value), y=OTHER),
        ]
        assert kinds(facts, logs("a b c", "x y")) == [kind]


def test_a_transaction_of_unknown_outcome_that_is_not_visible_has_read_nothing() -> None:
    facts = Facts()
    facts.transactions += [
        transaction("p/1", Reading(ONE, 0, "a"), fate=Fate.UNKNOWN, x=OTHER),
        transaction("p/2", Reading(ONE, 0, "a"), y=OTHER),
    ]
    assert kinds(facts, logs("a", "y")) == []


def test_two_transactions_that_read_from_each_other() -> None:
    facts = Facts()
    facts.transactions += [
        transaction("p/1", Reading(OTHER, 0, "b"), a=ONE),
        transaction("q/1", Reading(ONE, 0, "a"), b=OTHER),
    ]
    assert kinds(facts, logs("a", "b")) == ["G1c-wr"]


def test_a_member_that_skips_a_record() -> None:
    facts = Facts()
    for first, last in (((0, "a"), (1, "b")), ((0, "a"), (2, "c"))):
        session = facts.begin_session("member")
        for offset, value in (first, last):
            facts.consume(Reading(ONE, offset, value), session.readings)
    assert kinds(facts, logs("a b c")) == ["int-poll-skip"]
