"""The client's side of fetch sessions (KIP-227), in which requests name only changed partitions.

The broker stores the partitions of a session. A request with epoch 0 opens a session and names all
partitions. Each later request increments the epoch and names only partitions that are new, have a
new position, or leave the session. After an error for the whole request the client opens a new
session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.model.topic_partition import TopicPartition, by_topic
from odradek.wire.generated.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

EPOCH_INITIAL = 0
EPOCH_FINAL = -1
_EPOCH_MAX = 2**31 - 1


class FetchFrom(NamedTuple):
    """The offset to fetch from, the leader epoch, and the maximum number of bytes."""

    offset: int
    leader_epoch: int
    bytes_max: int


@dataclass(slots=True)
class FetchSession:
    """The session with one broker. If it is not `enabled`, every request names all partitions."""

    enabled: bool = True
    _id: int = 0
    _epoch: int = EPOCH_INITIAL
    _known: dict[TopicPartition, FetchFrom] = field(default_factory=dict)

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, FetchFrom]) -> None:
        """Add to a request the partitions that have changed since the previous request."""
        if not self.enabled:
            request.session_epoch = EPOCH_FINAL
            request.topics = _topics(wanted)
            return
        request.session_id = self._id
        request.session_epoch = self._epoch
        new = {each: f for each, f in wanted.items() if self._known.get(each) != f}
        gone = [each for each in self._known if each not in wanted]
        request.topics = _topics(new)
        if gone:
            request.forgotten_topics_data = [
                ForgottenTopic(topic=t, partitions=p) for t, p in by_topic(gone).items()
            ]
        self._known = dict(wanted)

    def accepted(self, session_id: int) -> None:
        """Advance the epoch after a successful response. With id 0 the broker has no session."""
        if session_id == 0:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """Open a new session with the next request."""
        self._id = 0
        self._epoch = EPOCH_INITIAL
        self._known = {}


def _topics(wanted: Mapping[TopicPartition, FetchFrom]) -> list[FetchTopic]:
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, index), where in wanted.items():
        topics.setdefault(topic, []).append(
            FetchPartition(
                partition=index,
                current_leader_epoch=where.leader_epoch,
                fetch_offset=where.offset,
                partition_max_bytes=where.bytes_max,
            )
        )
    return [FetchTopic(topic=t, partitions=p) for t, p in topics.items()]
