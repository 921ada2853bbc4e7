"""Reads dead letters of share groups, and the records that they are about (KIP-1191).

A dead letter says in its headers which record it is about. It contains the record itself only if
the group has `errors.deadletterqueue.copy.record.enable`. Otherwise the record is read from its own
topic, as long as it is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import (
    POLL_SECONDS,
    Patience,
    assigned_consumer,
    read_to_ends,
    records_of,
)
from odradek.client.errors import ClientError
from odradek.client.offsets import LATEST, offsets_at
from odradek.model.topic_partition import TopicPartition
from odradek.operations.group_settings import read_setting
from odradek.records.record import Headers, Record

TOPIC_SETTING = "errors.deadletterqueue.topic.name"
PREFIX = "__dlq.errors."
REJECTED = "Offset rejected by client."
TOO_OFTEN = "Offset delivery count exceeded the threshold."

Place = tuple[TopicPartition, int]
"""A partition and an offset."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter. `place` is where it is, `of` is the record that it is about."""

    place: Place
    of: Place
    group: str
    deliveries: int | None
    cause: str
    record: Record

    @property
    def reason(self) -> str:
        """The cause in one word, if it is one of Kafka's."""
        return {REJECTED: "rejected", TOO_OFTEN: "deliveries"}.get(self.cause, self.cause)

    @property
    def headers(self) -> Headers:
        """The headers of the original record, if they were copied."""
        return tuple(each for each in self.record.headers if not each[0].startswith(PREFIX))

    @property
    def has_copy(self) -> bool:
        """Whether the letter contains the original record."""
        return self.record.key is not None or self.record.value is not None or bool(self.headers)


def parse(key: TopicPartition, record: Record) -> DeadLetter | None:
    """Return the dead letter in a record; None if the record is none."""
    found = {
        name.removeprefix(PREFIX): (content or b"").decode(errors="replace")
        for name, content in record.headers
        if name.startswith(PREFIX)
    }
    deliveries = found.get("delivery.count", "")
    try:
        of = TopicPartition(found["topic"], int(found["partition"])), int(found["offset"])
        group = found["group"]
    except (KeyError, ValueError):
        return None
    return DeadLetter(
        (key, record.offset),
        of,
        group,
        int(deliveries) if deliveries.isdecimal() else None,
        found.get("message", ""),
        record,
    )


def topics_of(cluster: Cluster, groups: Iterable[str]) -> dict[str, str]:
    """Return the dead letter topics of share groups, without the groups that have none.

    Raises:
        ClientError: a broker does not respond, or refuses.
    """
    found: dict[str, str] = {}
    for group, topic in read_setting(cluster, groups, TOPIC_SETTING).items():
        if isinstance(topic, ClientError):
            raise topic
        if topic:
            found[group] = topic
    return found


def partitions_of(cluster: Cluster, topic: str) -> list[TopicPartition]:
    """Return the partitions of a dead letter topic; an empty list if it does not exist yet."""
    found = cluster.refresh([topic]).topics.get(topic)
    return [] if found is None else [TopicPartition(topic, each) for each in found.partitions]


def read_letters(
    cluster: Cluster, starts: Mapping[TopicPartition, int]
) -> Iterator[DeadLetter | Place]:
    """Yield the letters from these offsets up to the current ends, and other records' places.

    Raises:
        ClientError: the topic cannot be read.
    """
    for batch in read_to_ends(cluster, starts):
        key = batch.topic_partition
        for record in records_of(batch):
            yield parse(key, record) or (key, record.offset)


def read_originals(cluster: Cluster, letters: Iterable[DeadLetter]) -> dict[Place, Record]:
    """Return the original records, from the letters or from their own topics.

    Records that retention or compaction has removed are left out, and so are those of topics that
    do not exist any more.
    """
    found: dict[Place, Record] = {}
    missing: dict[TopicPartition, set[int]] = defaultdict(set)
    for each in letters:
        if each.has_copy:
            found[each.of] = each.record._replace(headers=each.headers)
        else:
            missing[each.of[0]].add(each.of[1])
    topics = cluster.refresh({key.topic for key in missing}).topics if missing else {}
    for key, offsets in missing.items():
        topic = topics.get(key.topic)
        if topic is not None and key.partition in topic.partitions:
            for record in _read_at(cluster, key, sorted(offsets)):
                found.setdefault((key, record.offset), record)
    return found


def _read_at(cluster: Cluster, key: TopicPartition, offsets: Sequence[int]) -> Iterator[Record]:
    """Yield the records of a partition at ascending offsets."""
    end = offsets_at(cluster, [key], LATEST)[key]
    left = [each for each in offsets if each < end]
    if not left:
        return
    with assigned_consumer(cluster, {key: left[0]}) as consumer:
        patience = Patience(consumer, cluster.timeout_ms)
        while left:
            batch = consumer.poll(POLL_SECONDS)
            position = consumer.positions.get(key, left[0])
            patience.check(has_progress=batch is not None)
            if batch is not None:
                wanted = set(left)
                yield from (record for record in records_of(batch) if record.offset in wanted)
            if position > left[0]:
                left = [each for each in left if each >= position]
                if left and left[0] > position:
                    consumer.seek(key, left[0])


def once(letters: Iterable[DeadLetter], keep: Callable[[DeadLetter], bool]) -> list[DeadLetter]:
    """Return the letters to keep, without a second letter about the same record."""
    seen: dict[tuple[str, Place], DeadLetter] = {}
    for each in letters:
        if keep(each):
            seen.setdefault((each.group, each.of), each)
    return list(seen.values())
