"""The client's side of fetch sessions (KIP-227), in which requests name only changed partitions.

The broker stores the partitions of a session. A request with epoch 0 opens a session and names all
partitions. Each later request increments the epoch and names only partitions that are new, have a
new position, or leave the session. After an error for the whole request the client opens a new
session. A topic that was made again has another id: its old partitions leave the session (KIP-516).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

EPOCH_INITIAL = 0
EPOCH_FINAL = -1
VERSION_OF_NAMES_MAX = 12
"""Later versions of Fetch have topic ids instead of names."""
_EPOCH_MAX = 2**31 - 1
_NO_ID = bytes(16)


class FetchFrom(NamedTuple):
    """The offset to fetch from, the leader epoch, the maximum number of bytes, and the topic's id."""

    offset: int
    leader_epoch: int
    bytes_max: int
    topic_id: bytes = _NO_ID


@dataclass(slots=True)
class FetchSession:
    """The session with one broker. If it is not `enabled`, every request names all partitions."""

    enabled: bool = True
    _id: int = 0
    _epoch: int = EPOCH_INITIAL
    _known: dict[TopicPartition, FetchFrom] = field(default_factory=dict)
    _has_ids: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the broker keeps a session."""
        return self._id != 0

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, FetchFrom]) -> bool:
        """Add to a request the partitions that have changed since the previous request.

        Return whether the request can be sent with topic ids: all topics have one, and the session, if
        it is open, has them, too.
        """
        has_ids = all(each.topic_id != _NO_ID for each in wanted.values())
        if not self.enabled:
            request.session_epoch = EPOCH_FINAL
            request.topics = _topics(wanted)
            return has_ids
        if wanted and has_ids != self._has_ids:
            if self.is_open:  # the broker closes the old session, and opens another one
                self._epoch = EPOCH_INITIAL
                self._known = {}
            self._has_ids = has_ids
        request.session_id = self._id
        request.session_epoch = self._epoch
        known = self._known
        new = {each: f for each, f in wanted.items() if known.get(each) != f}
        gone = [
            (each, f.topic_id)
            for each, f in known.items()
            if each not in wanted or wanted[each].topic_id != f.topic_id
        ]
        request.topics = _topics(new)
        request.forgotten_topics_data = _forgotten(gone)
        self._known = dict(wanted)
        return self._has_ids

    def accepted(self, session_id: int) -> None:
        """Advance the epoch after a successful response. With id 0 the broker has no session."""
        if session_id == 0:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def renew(self) -> None:
        """Replace the session by a new one with the next request."""
        self._epoch = EPOCH_INITIAL
        self._known = {}

    def reset(self) -> None:
        """Open a new session with the next request. The broker has none."""
        self._id = 0
        self._epoch = EPOCH_INITIAL
        self._known = {}

    def end(self, request: FetchRequest) -> None:
        """Make a request the last one of the session."""
        request.session_id = self._id
        request.session_epoch = EPOCH_FINAL
        self.reset()


def _topics(wanted: Mapping[TopicPartition, FetchFrom]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, index), where in wanted.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=where.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=where.leader_epoch,
                fetch_offset=where.offset,
                partition_max_bytes=where.bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(gone: Iterable[tuple[TopicPartition, bytes]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, index), topic_id in gone:
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = ForgottenTopic(topic=name, topic_id=topic_id)
        topic.partitions.append(index)
    return list(topics.values())
