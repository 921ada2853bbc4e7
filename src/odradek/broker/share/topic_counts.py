"""Counts share fetches and acknowledgements by topic, for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

TopicKey = tuple[bytes, int]
"""Topic id and partition."""


class ShareTopicCounts:
    """The counts of a broker, by topic id. A request counts once for each of its topics."""

    __slots__ = ("acknowledgements", "failed_acknowledgements", "failed_fetches", "fetches")

    def __init__(self) -> None:
        self.fetches: Final[Counter[bytes]] = Counter()
        self.failed_fetches: Final[Counter[bytes]] = Counter()
        self.acknowledgements: Final[Counter[bytes]] = Counter()
        self.failed_acknowledgements: Final[Counter[bytes]] = Counter()

    def on_fetch(self, partitions: Iterable[TopicKey], failed: Iterable[TopicKey]) -> None:
        """Count a ShareFetch request for these partitions, some of which had an error."""
        self.fetches.update({topic_id for topic_id, _ in partitions})
        self.failed_fetches.update({topic_id for topic_id, _ in failed})

    def on_acknowledge(self, partitions: Iterable[TopicKey], failed: Iterable[TopicKey]) -> None:
        """Count the acknowledgements of a request for these partitions."""
        self.acknowledgements.update({topic_id for topic_id, _ in partitions})
        self.failed_acknowledgements.update({topic_id for topic_id, _ in failed})
