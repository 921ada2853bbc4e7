"""A partition of a topic, by the topic's name."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """Written `topic-partition`, as its directory is."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
