"""Parses and formats offsets by partition, in options and in Spark's checkpoints.

Options and checkpoints have the JSON form of Spark's own Kafka source, `{"topic": {"0": 17, "1":
42}}`. In options, -2 means earliest and -1 means latest. Checkpoints also have the ids of the topics,
so that a topic that was deleted and created again is detected (KIP-516). Checkpoints of older versions
have no ids.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from odradek.model.topic_partition import TopicPartition

EARLIEST = -2
LATEST = -1

Offsets = dict[TopicPartition, int]
JsonOffsets = dict[str, dict[str, Any]]

IDS = "/ids"
"""The key of the topics' ids in checkpoints. No topic can have this name."""


@dataclass(frozen=True, slots=True)
class At:
    """The earliest or latest offset of every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class Listed:
    """An offset for each partition; EARLIEST and LATEST are possible."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTime:
    """The offset of the first record at or after a time, in milliseconds since 1970.

    If there is no such record and `latest_if_none` is set, the offset is the end of the partition.
    If there is no such record and `latest_if_none` is not set, the read fails.
    """

    timestamp_ms: int | Mapping[TopicPartition, int]
    latest_if_none: bool

    def timestamp_of(self, partition: TopicPartition) -> int:
        """Return the requested time for a partition, in milliseconds since 1970."""
        if isinstance(self.timestamp_ms, int):
            return self.timestamp_ms
        return self.timestamp_ms[partition]


Bound = At | Listed | AtTime


def require_all(bound: Bound, partitions: Collection[TopicPartition], option: str) -> None:
    """Check that a list of offsets has exactly the partitions that are read.

    Raises:
        ValueError: the list lacks a partition, or has a partition that is not read.
    """
    match bound:
        case Listed(offsets):
            listed = set(offsets)
        case AtTime(timestamp_ms) if not isinstance(timestamp_ms, int):
            listed = set(timestamp_ms)
        case _:
            return
    missing = sorted(set(partitions) - listed)
    surplus = sorted(listed - set(partitions))
    if missing:
        raise ValueError(f"{option} has no offset for {', '.join(map(str, missing))}")
    if surplus:
        raise ValueError(f"{option} names {', '.join(map(str, surplus))}, which are not read")


def parse_listed(text: str, option: str) -> Offsets:
    """Parse `{"topic": {"0": 17}}` into numbers by partition.

    Raises:
        ValueError: the text does not have this form.
    """
    try:
        parsed = json.loads(text)
        return {
            TopicPartition(topic, int(partition)): _integer(number)
            for topic, numbers in parsed.items()
            for partition, number in numbers.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(
            f'{option} must be JSON like {{"topic": {{"0": 17, "1": 42}}}}; it is {text!r}'
        ) from error


def parse_assignment(text: str) -> list[TopicPartition]:
    """Parse `{"topic": [0, 1]}` into partitions.

    Raises:
        ValueError: the text does not have this form.
    """
    try:
        parsed = json.loads(text)
        return [
            TopicPartition(topic, _integer(partition))
            for topic, partitions in parsed.items()
            for partition in partitions
        ]
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f'assign must be JSON like {{"topic": [0, 1]}}; it is {text!r}') from error


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not an integer")
    return value


def to_json(offsets: Offsets, ids: Mapping[str, str] | None = None) -> JsonOffsets:
    """Return offsets in the form of Spark's checkpoint, with the ids of their topics."""
    nested: JsonOffsets = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    known = {topic: ids[topic] for topic in nested if topic in ids} if ids else {}
    return {**nested, IDS: known} if known else nested


def from_json(nested: JsonOffsets) -> Offsets:
    """Return the offsets of a checkpoint."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, offsets in nested.items()
        if topic != IDS
        for partition, offset in offsets.items()
    }


def ids_in(nested: JsonOffsets) -> dict[str, str]:
    """Return the ids of topics in a checkpoint."""
    return nested.get(IDS, {})
