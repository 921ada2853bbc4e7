"""Partitions as words: `flights`, or only some partitions of a topic, as in `flights:0,2-4`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.client.cluster import Cluster
from odradek.client.errors import NoSuchTopicError
from odradek.model.topic_partition import TopicPartition

_PARTITIONS_MAX = 1_000_000


def parse_numbers(text: str) -> list[int]:
    """Parse numbers and ranges of numbers. The text `0,2-4` means 0, 2, 3, 4.

    Raises:
        ValueError: the text does not have this form.
    """
    numbers: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            raise ValueError(f"{text!r}: write partitions as 0,2-4")
        last = int(high or low)
        if last >= _PARTITIONS_MAX:
            raise ValueError(f"{text!r}: there is no partition {last}")
        numbers += range(int(low), last + 1)
    return numbers


def select_partitions(
    cluster: Cluster, topics: Iterable[str], only: Sequence[int] | None = None
) -> list[TopicPartition]:
    """Return the partitions of topics. `topic:0,2` or `only` limits the result to these partitions.

    Raises:
        NoSuchTopicError: there is no such topic or partition.
        ValueError: a word is malformed.
    """
    found: dict[TopicPartition, None] = {}
    for word in topics:
        name, colon, numbers = word.partition(":")
        partitions: Mapping[int, object] = cluster.topic(name).partitions
        wanted = parse_numbers(numbers) if colon else only
        for index in partitions if wanted is None else wanted:
            if index not in partitions:
                raise NoSuchTopicError(name, index)
            found[TopicPartition(name, index)] = None
    return list(found)
