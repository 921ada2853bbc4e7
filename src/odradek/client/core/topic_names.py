"""The names of topics that are known by id only (KIP-516)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.client.core.asks import Ask
from odradek.client.core.routes import Routes
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition, by_topic
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse

RETRY_MS = 1_000
"""A broker may not know a new topic yet."""


class TopicNames:
    """Asks for the names of topic ids, and remembers them."""

    def __init__(self, routes: Routes, request_timeout_ms: int) -> None:
        self.next_deadline_ms: int | None = None
        self._routes = routes
        self._request_timeout_ms = request_timeout_ms
        self._names: dict[bytes, str] = {}
        self._unknown: set[bytes] = set()
        self._is_asked = False
        self._ask_at_ms = 0

    def resolve(
        self, target: Mapping[bytes, Sequence[int]], now_ms: int
    ) -> tuple[frozenset[TopicPartition], bool]:
        """Return the partitions whose names are known, and whether these are all.

        The other names are asked for.
        """
        self._unknown = {each for each in target if each not in self._names}
        for name, topic in self._routes.metadata.topics.items():
            if topic.id in self._unknown:
                self._learn(topic.id, name)
        found = {
            TopicPartition(self._names[topic_id], index)
            for topic_id, indexes in target.items()
            if topic_id in self._names
            for index in indexes
        }
        for name in {each.topic for each in found}:
            self._routes.topic(name, now_ms)
        return frozenset(found), not self._unknown

    def by_id(self, partitions: Iterable[TopicPartition]) -> list[tuple[bytes, list[int]]]:
        """Return partitions by topic id. All names have been learned from ids."""
        ids = {name: topic_id for topic_id, name in self._names.items()}
        return sorted(
            (ids[name], indexes) for name, indexes in by_topic(sorted(partitions)).items()
        )

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the request that is due."""
        self.next_deadline_ms = None
        if not self._unknown or self._is_asked:
            return []
        if now_ms < self._ask_at_ms:
            self.next_deadline_ms = self._ask_at_ms
            return []
        self._is_asked = True
        topics = [MetadataRequestTopic(topic_id=each, name=None) for each in sorted(self._unknown)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        return [
            Ask(
                None,
                request,
                MetadataResponse,
                self._arrived,
                self._failed,
                timeout_ms=self._request_timeout_ms,
            )
        ]

    def _arrived(self, response: MetadataResponse, now_ms: int) -> None:
        self._is_asked = False
        self._ask_at_ms = now_ms + RETRY_MS
        for each in response.topics:
            if each.name and not each.error_code:
                self._learn(each.topic_id, each.name)

    def _failed(self, _error: ClientError, now_ms: int) -> None:
        self._is_asked = False
        self._ask_at_ms = now_ms + RETRY_MS

    def _learn(self, topic_id: bytes, name: str) -> None:
        """Note a name. A topic that was made again has another id."""
        for other in [key for key, value in self._names.items() if value == name]:
            del self._names[other]
        self._names[topic_id] = name
        self._unknown.discard(topic_id)
