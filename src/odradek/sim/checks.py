"""Checks the logs at the end of a run against the responses that the clients received."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from odradek.model.topic_partition import TopicPartition
from odradek.sim.facts import Facts, Fate, Transaction


@dataclass(frozen=True, slots=True)
class Contents:
    """The offsets and values of a partition that consumers read, by isolation level."""

    uncommitted: list[tuple[int, str]]
    committed: list[tuple[int, str]]
    start: int = 0
    """The first offset. The records before it were deleted."""


def check(
    facts: Facts, logs: Mapping[TopicPartition, Contents], offsets: Mapping[str, int]
) -> Iterator[str]:
    """Yield the violations.

    `offsets` has the committed offsets of the groups of transactional producers.
    """
    for partition, contents in logs.items():
        yield from _check_offsets(partition, contents)
        yield from _check_acknowledged(facts, partition, contents)
        yield from _check_consumed(facts, partition, contents)
    yield from _check_transactions(facts, logs)
    yield from _check_transactional_offsets(facts, offsets)


def _check_offsets(partition: TopicPartition, contents: Contents) -> Iterator[str]:
    """Check that offsets increase, and that no value occurs twice.

    Check also that each record that a read_committed consumer reads is read by a read_uncommitted
    consumer too.
    """
    places = [offset for offset, _ in contents.uncommitted]
    if places != sorted(set(places)):
        yield f"{partition}: the offsets are not in order"
    counts = Counter(value for _, value in contents.uncommitted)
    for value, count in counts.items():
        if count > 1:
            yield f"{partition}: {value!r} is there {count} times"
    if not set(contents.committed) <= set(contents.uncommitted):
        yield f"{partition}: read_committed sees what read_uncommitted does not"


def _check_acknowledged(
    facts: Facts, partition: TopicPartition, contents: Contents
) -> Iterator[str]:
    """Check that acknowledged records exist at their offsets, in the order of each producer.

    Check also that a client has sent each record.
    """
    places = {value: offset for offset, value in contents.committed}
    for value, offset in facts.acknowledged.get(partition, {}).items():
        found = places.get(value)
        if found is None and offset < contents.start:
            continue  # it was deleted, or it may have been
        if found is None:
            yield f"{partition}: {value!r} was acknowledged and is lost"
        elif offset not in (-1, found):
            yield f"{partition}: {value!r} was acknowledged at {offset} and is at {found}"
    known = set(_values(facts.transactions, partition))
    for name, sent in facts.sent.get(partition, {}).items():
        known.update(sent)
        found_order = [value for value in sent if value in places]
        if found_order != sorted(found_order, key=places.__getitem__):
            yield f"{partition}: the records of {name} are out of order"
    for value in places.keys() - known:
        yield f"{partition}: nobody has sent {value!r}"


def _values(transactions: list[Transaction], partition: TopicPartition) -> Iterator[str]:
    for transaction in transactions:
        yield from transaction.values.get(partition, ())


def _check_consumed(facts: Facts, partition: TopicPartition, contents: Contents) -> Iterator[str]:
    """Check that records that a read_committed consumer received still exist."""
    places = dict(contents.committed)
    for offset, value in facts.consumed.get(partition, {}).items():
        if offset >= contents.start and places.get(offset) != value:
            yield f"{partition} offset {offset}: {value!r} was consumed, {places.get(offset)!r} is there"


def _check_transactions(facts: Facts, logs: Mapping[TopicPartition, Contents]) -> Iterator[str]:
    """Check that committed transactions are visible, and aborted transactions are not.

    Of any other transaction, either all records or none must be visible.
    """
    visible = {
        partition: {value for _, value in contents.committed}
        for partition, contents in logs.items()
    }
    for transaction in facts.transactions:
        seen = [
            value in visible[partition]
            for partition, values in transaction.values.items()
            for value in values
        ]
        if transaction.fate is Fate.COMMITTED and not all(seen):
            yield f"{transaction.name} was committed, and records of it are lost"
        if transaction.fate is Fate.ABORTED and any(seen):
            yield f"{transaction.name} was aborted, and read_committed sees records of it"
        if any(seen) and not all(seen):
            yield f"{transaction.name} is seen in parts"


def _check_transactional_offsets(facts: Facts, offsets: Mapping[str, int]) -> Iterator[str]:
    """Check the committed offset of each producer's group.

    It must be the offset of the producer's last committed transaction.
    """
    for group, offset in offsets.items():
        expected, possible = -1, {-1}
        for transaction in facts.transactions:
            if transaction.offset is None or not group.endswith(
                f" {transaction.name.split('/')[0]}"
            ):
                continue
            if transaction.fate is Fate.COMMITTED:
                expected, possible = transaction.offset, {transaction.offset}
            elif transaction.fate is Fate.UNKNOWN:
                possible.add(transaction.offset)
        if offset not in possible:
            yield f"group {group!r} has committed {offset}, not {expected}"
