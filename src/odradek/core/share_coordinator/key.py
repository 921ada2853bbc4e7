"""The name of a share partition (Kafka's `SharePartitionKey`)."""

from __future__ import annotations

from typing import NamedTuple

from odradek.model import uuids


class SharePartitionKey(NamedTuple):
    """A partition of a topic, as one share group consumes it."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def text(self) -> str:
        """The key of a FindCoordinator request: group id, topic id and partition."""
        return f"{self.group_id}:{uuids.to_text(self.topic_id)}:{self.partition}"


def parse(text: str) -> SharePartitionKey:
    """Parse the key of a FindCoordinator request. The group id may contain colons.

    Raises:
        ValueError: the text is not a key.
    """
    group_id, _, topic_id = text.rpartition(":")[0].rpartition(":")
    if not group_id.strip():
        raise ValueError(f"{text!r} is not GROUP:TOPIC_ID:PARTITION")
    return SharePartitionKey(group_id, uuids.from_text(topic_id), int(text.rpartition(":")[2]))
