"""Counts the dead letters of share groups, and writes their records to the topics again.

A replay commits offsets of the consumer group GROUP.replay in the dead letter topic, so that the next one
goes on where it has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, commit_offsets, fetch_offsets
from odradek.client.errors import ClientError
from odradek.client.offsets import EARLIEST, offsets_at
from odradek.client.producer import Producer
from odradek.model.topic_partition import TopicPartition
from odradek.operations.dead_letters import (
    DeadLetter,
    Place,
    once,
    partitions_of,
    read_letters,
    read_originals,
)
from odradek.records.record import Record

_BATCH = 500
"""How many letters are replayed before their offsets are committed."""


@dataclass(slots=True)
class Counts:
    """How many dead letters of a group its dead letter topic has."""

    group: str
    topic: str
    letters: int = 0
    waiting: int = 0
    """How many were not replayed."""
    rejected: int = 0
    deliveries: int = 0
    """How many are about records that were delivered as often as allowed."""
    newest_ms: int | None = None

    def add(self, letter: DeadLetter, *, is_waiting: bool) -> None:
        """Count a letter of the group."""
        self.letters += 1
        self.rejected += letter.reason == "rejected"
        self.deliveries += letter.reason == "deliveries"
        self.waiting += is_waiting
        self.newest_ms = max(self.newest_ms or 0, letter.record.timestamp)


def count(cluster: Cluster, group: str, topic: str) -> Counts:
    """Read a dead letter topic, and count the letters of a group.

    Raises:
        ClientError: the topic cannot be read.
    """
    starts = _beginnings(cluster, topic)
    replayed = fetch_offsets(cluster, replay_group(group), starts) if starts else {}
    found = Counts(group, topic)
    for each in read_letters(cluster, starts):
        if isinstance(each, DeadLetter) and each.group == group:
            key, offset = each.place
            is_waiting = key not in replayed or offset >= replayed[key].offset
            found.add(each, is_waiting=is_waiting)
    return found


def newest(
    cluster: Cluster, group: str, topic: str, about: Collection[str], most: int
) -> list[DeadLetter]:
    """Return the newest `most` letters of a group in each partition of a dead letter topic.

    `about` selects letters about records of these topics; if it is empty, all are selected.

    Raises:
        ClientError: the topic cannot be read.
    """
    kept: dict[TopicPartition, list[DeadLetter]] = {}
    for each in read_letters(cluster, _beginnings(cluster, topic)):
        if not isinstance(each, DeadLetter) or each.group != group:
            continue
        if not about or each.of[0].topic in about:
            letters = kept.setdefault(each.place[0], [])
            letters.append(each)
            del letters[:-most]
    return [each for key in sorted(kept) for each in kept[key]]


def replay_group(group_id: str) -> str:
    """Return the consumer group whose offsets say up to where letters were replayed."""
    return f"{group_id}.replay"


def replay_starts(
    cluster: Cluster, group: str, topic: str, *, again: bool
) -> dict[TopicPartition, int]:
    """Return where a replay begins: where the last one has ended, or with `again` at the beginning.

    Raises:
        ClientError: the offsets cannot be fetched.
    """
    starts = _beginnings(cluster, topic)
    if not again and starts:
        for key, committed in fetch_offsets(cluster, replay_group(group), starts).items():
            starts[key] = max(starts[key], committed.offset)
    return starts


def _beginnings(cluster: Cluster, topic: str) -> dict[TopicPartition, int]:
    partitions = partitions_of(cluster, topic)
    return offsets_at(cluster, partitions, EARLIEST) if partitions else {}


class Replay:
    """Replays letters in batches: it writes the records, and then commits the offsets."""

    def __init__(
        self, cluster: Cluster, group_id: str, target: str | None, *, execute: bool
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._target = target
        self._execute = execute
        self._batch: list[DeadLetter] = []
        self._done: set[Place] = set()
        self._positions: dict[TopicPartition, int] = {}
        self.letters = 0
        """How many letters of the group were added."""
        self.counts: Counter[TopicPartition] = Counter()
        """Number of records by the partition from which they came."""
        self.gone: Counter[TopicPartition] = Counter()
        """Number of records that are not in their partition any more."""
        self.errors: list[ClientError] = []

    def add(self, each: DeadLetter | Place) -> None:
        """Add the next record of the dead letter topic."""
        key, offset = each.place if isinstance(each, DeadLetter) else each
        self._positions[key] = offset + 1
        if isinstance(each, DeadLetter) and each.group == self._group_id:
            self.letters += 1
            self._batch.append(each)
            if len(self._batch) >= _BATCH:
                self.flush()

    def flush(self) -> None:
        """Write the records of the batch, and commit the offsets if all are written."""
        letters = once(self._batch, lambda each: each.of not in self._done)
        self._batch = []
        originals = read_originals(self._cluster, letters)
        for each in letters:
            found = each.of in originals
            (self.counts if found else self.gone)[each.of[0]] += 1
            self.counts[each.of[0]] += 0
            self._done.add(each.of)
        if self._execute and not self.errors:
            self._write([(each, originals[each.of]) for each in letters if each.of in originals])
            if not self.errors and self._positions:
                self._commit()

    def _write(self, records: Sequence[tuple[DeadLetter, Record]]) -> None:
        with Producer(self._cluster) as producer:
            deliveries = [
                producer.send(
                    self._target or letter.of[0].topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    partition=None if self._target else letter.of[0].partition,
                )
                for letter, record in records
            ]
            producer.flush()
        self.errors += [each.error for each in deliveries if each.error is not None]

    def _commit(self) -> None:
        offsets = {key: CommittedOffset(each) for key, each in self._positions.items()}
        results = commit_offsets(self._cluster, replay_group(self._group_id), offsets)
        self.errors += [error for error in results.values() if error is not None]
