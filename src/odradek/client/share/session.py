"""The share session with one broker: which epoch and which partitions its next request has.

The first ShareFetch has the epoch 0, names all partitions and has no acknowledgements. Later
requests have the epochs 1, 2, ... and name the partitions that are added, acknowledged or removed.
The epoch -1 ends the session. ShareAcknowledge requests use the same epochs. After an error of the
session or of the connection, the next request opens a new session, as in Kafka's
`ShareSessionHandler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.client.share.acknowledgements import AcknowledgeType, TopicIdPartition, batches
from odradek.wire.generated import share_acknowledge_request as acknowledging
from odradek.wire.generated import share_fetch_request as fetching

EPOCH_INITIAL = 0
EPOCH_FINAL = -1
_EPOCH_MAX = 2**31 - 1

Acknowledgements = Mapping[TopicIdPartition, Mapping[int, AcknowledgeType]]
"""The type for each offset of each partition."""


class ShareSession:
    """The epoch and the partitions of a session."""

    def __init__(self) -> None:
        self._epoch = EPOCH_INITIAL
        self._partitions: dict[TopicIdPartition, None] = {}

    @property
    def is_new(self) -> bool:
        """Whether the next request opens the session. It can have no acknowledgements."""
        return self._epoch == EPOCH_INITIAL

    def must_change(self, wanted: Iterable[TopicIdPartition]) -> bool:
        """Return whether the session has other partitions than these."""
        return self._partitions != dict.fromkeys(wanted)

    def fill_fetch(
        self,
        request: fetching.ShareFetchRequest,
        wanted: Iterable[TopicIdPartition],
        acknowledgements: Acknowledgements,
    ) -> None:
        """Add the epoch, the changes of the partitions, and acknowledgements to a request."""
        assert not (self.is_new and acknowledgements)
        partitions = dict.fromkeys(wanted)
        gone = [
            each
            for each in {**self._partitions, **dict.fromkeys(acknowledgements)}
            if each not in partitions
        ]
        topics: dict[bytes, fetching.FetchTopic] = {}
        for each in {**partitions, **dict.fromkeys(acknowledgements)}:
            types = acknowledgements.get(each)
            if types is None and each in self._partitions:
                continue
            topic = topics.setdefault(each.topic_id, fetching.FetchTopic(topic_id=each.topic_id))
            topic.partitions.append(
                fetching.FetchPartition(
                    partition_index=each.partition,
                    acknowledgement_batches=[
                        fetching.AcknowledgementBatch(
                            first_offset=batch.first_offset,
                            last_offset=batch.last_offset,
                            acknowledge_types=batch.types,
                        )
                        for batch in batches(types or {})
                    ],
                )
            )
        forgotten: dict[bytes, list[int]] = {}
        for each in gone:
            forgotten.setdefault(each.topic_id, []).append(each.partition)
        request.share_session_epoch = self._epoch
        request.topics = list(topics.values())
        request.forgotten_topics_data = [
            fetching.ForgottenTopic(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in forgotten.items()
        ]
        self._partitions = partitions

    def fill_acknowledge(
        self,
        request: acknowledging.ShareAcknowledgeRequest,
        acknowledgements: Acknowledgements,
        *,
        is_final: bool,
    ) -> None:
        """Add the epoch and acknowledgements to a request. It cannot open a session."""
        assert not self.is_new
        topics: dict[bytes, acknowledging.AcknowledgeTopic] = {}
        for each, types in acknowledgements.items():
            topic = topics.setdefault(
                each.topic_id, acknowledging.AcknowledgeTopic(topic_id=each.topic_id)
            )
            topic.partitions.append(
                acknowledging.AcknowledgePartition(
                    partition_index=each.partition,
                    acknowledgement_batches=[
                        acknowledging.AcknowledgementBatch(
                            first_offset=batch.first_offset,
                            last_offset=batch.last_offset,
                            acknowledge_types=batch.types,
                        )
                        for batch in batches(types)
                    ],
                )
            )
        request.share_session_epoch = EPOCH_FINAL if is_final else self._epoch
        request.topics = list(topics.values())

    def advance(self) -> None:
        """Use the next epoch, because the broker has processed a request."""
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """Open a new session with the next request."""
        self._epoch = EPOCH_INITIAL
        self._partitions = {}
