"""The markers of transactions, and the queues of markers for other brokers.

A marker ends one transaction in some partitions. The coordinators of all partitions of
`__transaction_state` on this broker share one `MarkerQueues`. It collects the markers for each
broker. At most one request is in flight to a broker; the next request has all markers that were
added meanwhile. So many transactions share a request, as in Apache Kafka's
`TransactionMarkerChannelManager`.

A response identifies its results by producer id. Therefore a request has at most one marker for
each producer id. If there is no response, the results of all markers in the request are empty. Then
the coordinators (`completion`) request these markers again, possibly to other leaders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.wire.generated.write_txn_markers_response import WriteTxnMarkersResponse

REQUEST_MARKERS_MAX: Final = 1000
"""Maximum number of markers in one request."""

Results = dict[TopicPartition, ErrorCode]
"""The result for each partition. A partition without a result may or may not have the marker."""


class Marker(NamedTuple):
    """The end of one transaction in some partitions."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int
    """The level of transaction.version that the producer used to end the transaction."""
    partitions: Sequence[TopicPartition]


class QueuedMarker(NamedTuple):
    """A marker for another broker."""

    coordinator_partition: int
    """The partition of `__transaction_state` that the transaction belongs to."""
    marker: Marker
    ticket: Any
    """Identifies the marker for the caller of `MarkerQueues`."""


class MarkerQueues:
    """The markers for each other broker: those that wait, and those of the request in flight."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[QueuedMarker]] = {}
        self._in_flight: dict[int, list[QueuedMarker]] = {}

    def add(self, broker_id: int, queued: QueuedMarker) -> None:
        """Add a marker for a broker."""
        self._waiting.setdefault(broker_id, []).append(queued)

    def begin(self, broker_id: int) -> WriteTxnMarkersRequest | None:
        """Return the next request to a broker, and call `finish` when it has ended.

        Return None if no marker waits, or if a request is in flight.
        """
        if broker_id in self._in_flight:
            return None
        sent: dict[int, QueuedMarker] = {}
        left = []
        for queued in self._waiting.pop(broker_id, ()):
            producer_id = queued.marker.producer_id
            if producer_id in sent or len(sent) == REQUEST_MARKERS_MAX:
                left.append(queued)
            else:
                sent[producer_id] = queued
        if left:
            self._waiting[broker_id] = left
        if not sent:
            return None
        self._in_flight[broker_id] = list(sent.values())
        return WriteTxnMarkersRequest(markers=[_encodable(each.marker) for each in sent.values()])

    def finish(
        self, broker_id: int, response: WriteTxnMarkersResponse | None
    ) -> list[tuple[Any, Results]]:
        """End the request in flight; return the results of each marker, with its ticket.

        `response` is None if there was no response.
        """
        by_producer: dict[int, Results] = {}
        for answer in () if response is None else response.markers:
            results = by_producer.setdefault(answer.producer_id, {})
            for topic in answer.topics:
                for each in topic.partitions:
                    name = TopicPartition(topic.name, each.partition_index)
                    results[name] = ErrorCode.of(each.error_code)
        return [
            (queued.ticket, by_producer.get(queued.marker.producer_id, {}))
            for queued in self._in_flight.pop(broker_id)
        ]

    def drop(self, coordinator_partition: int) -> list[Any]:
        """Remove the markers of a partition that another broker coordinates now.

        Return their tickets. Markers in flight may still be written; their results are dropped.
        """
        partition = coordinator_partition
        tickets = []
        for queues in (self._waiting, self._in_flight):
            for broker_id, markers in queues.items():
                tickets += [x.ticket for x in markers if x.coordinator_partition == partition]
                queues[broker_id] = [x for x in markers if x.coordinator_partition != partition]
        return tickets


def _encodable(marker: Marker) -> WritableTxnMarker:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for topic, index in marker.partitions:
        found = topics.setdefault(topic, WritableTxnMarkerTopic(name=topic))
        found.partition_indexes.append(index)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=list(topics.values()),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
