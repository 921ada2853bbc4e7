"""The state of one transactional id, and its transitions.

A `Transaction` is immutable. A decision creates a new `Transaction`. Its record contains the whole
state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from odradek.core.transaction.phases import AT_REST, PREDECESSORS, PREPARED, Phase
from odradek.model.topic_partition import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 2**15 - 1
EPOCH_LAST: Final = EPOCH_MAX - 1
"""The last epoch that a producer can get. The coordinator needs one higher epoch for fencing."""
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of transactions whose end an external coordinator decides (KIP-939)."""
EPOCH_BUMP_VERSION: Final = 2
"""From this level of transaction.version on, each transaction has a new epoch."""

Partitions = Mapping[str, frozenset[int]]
"""Partition indexes by topic. Each topic has at least one partition."""
NO_PARTITIONS: Final[Partitions] = {}


class Transaction(NamedTuple):
    """The state of one transactional id: its producer, and its current or last transaction."""

    producer_id: int
    previous_producer_id: int
    """The producer id before the last transition. Usually it is the same as `producer_id`."""
    next_producer_id: int
    """The producer id for the next transaction, if the epochs of `producer_id` are used up and a
    transaction is ending; otherwise -1."""
    producer_epoch: int
    timeout_ms: int
    phase: Phase
    partitions: Partitions
    """The partitions of the transaction, until it is complete."""
    start_ms: int
    """The time at which the first partition was added; -1 before. Milliseconds since 1970."""
    update_ms: int
    """The time of the last transition, in milliseconds since 1970."""
    client_version: int
    """The version of the protocol that the producer uses (a level of transaction.version)."""

    @property
    def is_prepared(self) -> bool:
        """Whether the end of the transaction is decided but not complete."""
        return self.phase in PREPARED

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left."""
        return self.producer_epoch >= EPOCH_LAST

    @property
    def bumps_epochs(self) -> bool:
        """Whether the producer uses version 2 of the protocol (KIP-890)."""
        return self.client_version >= EPOCH_BUMP_VERSION

    def contains(self, partitions: Partitions) -> bool:
        """Return whether all of these partitions belong to the transaction."""
        known = self.partitions
        return all(
            topic in known and indexes <= known[topic] for topic, indexes in partitions.items()
        )

    def move(self, phase: Phase, update_ms: int, **changes: Any) -> Transaction:
        """Return the next state, which has this phase and these changes."""
        assert self.phase in PREDECESSORS[phase], f"{self.phase.label} to {phase.label}"
        after = self._replace(
            phase=phase,
            update_ms=update_ms,
            previous_producer_id=self.producer_id,
            **changes,
        )
        assert after.producer_epoch <= EPOCH_MAX, "a producer id has a last epoch"
        if after.producer_id == self.producer_id:
            assert after.producer_epoch >= self.producer_epoch, "epochs never go back"
        if phase not in PREPARED:
            assert after.next_producer_id == NO_PRODUCER_ID, "only an end needs the next id"
        if phase in AT_REST:
            assert not after.partitions, "a complete transaction has no partitions"
        return after


def united(some: Partitions, more: Partitions) -> Partitions:
    """Return the union of two sets of partitions."""
    all_of_them = dict(some)
    for topic, indexes in more.items():
        known = all_of_them.get(topic)
        all_of_them[topic] = indexes if known is None else known | indexes
    return all_of_them


def gathered(partitions: Iterable[TopicPartition]) -> Partitions:
    """Group partitions by topic."""
    topics: dict[str, set[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in topics.items()}


def each(partitions: Partitions) -> Iterator[TopicPartition]:
    """Yield each partition."""
    for topic, indexes in partitions.items():
        for index in sorted(indexes):
            yield TopicPartition(topic, index)
