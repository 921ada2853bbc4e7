"""WriteTxnMarkers (27), versions 1-2: write the markers that end a transaction.

The transaction coordinators of other brokers send this request. Administrators send it to abort a
hanging transaction. The coordinator of this broker uses the same code without a request. A marker
that is not committed within `request.timeout.ms` gets the error REQUEST_TIMED_OUT.
"""

from __future__ import annotations

import asyncio

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.core.transaction.markers import Marker, Results
from odradek.handlers.authorization import AclOperation, permits_cluster, require_cluster
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import NO_PRODUCER_EPOCH
from odradek.wire.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from odradek.wire.generated.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)


async def handle(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Write all markers, then wait until they are committed; return the results by producer."""
    if not permits_cluster(broker, context, AclOperation.ALTER, log_denied=False):
        require_cluster(broker, context, AclOperation.CLUSTER_ACTION)
    written = [
        (asked.producer_id, _refusal(asked) or broker.coordinators.markers.write(_marker(asked)))
        for asked in request.markers
    ]
    by_producer: dict[int, Results] = {}
    for producer_id, results in written:
        if isinstance(results, asyncio.Task):
            results = await results
        by_producer.setdefault(producer_id, {}).update(results)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(results))
            for producer_id, results in by_producer.items()
            if results
        ]
    )


def _refusal(asked: WritableTxnMarker) -> Results | None:
    """Return the errors of a marker without a producer id or epoch, as in Apache Kafka."""
    if asked.producer_id >= 0 and asked.producer_epoch >= 0:
        return None
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    if asked.producer_id >= 0 and asked.producer_epoch < NO_PRODUCER_EPOCH:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return dict.fromkeys(_partitions(asked), code)


def _marker(asked: WritableTxnMarker) -> Marker:
    return Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
        _partitions(asked),
    )


def _partitions(asked: WritableTxnMarker) -> list[TopicPartition]:
    """Return the partitions without duplicates."""
    names = (
        TopicPartition(topic.name, index)
        for topic in asked.topics
        for index in topic.partition_indexes
    )
    return list(dict.fromkeys(names))


def _topics(results: Results) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, WritableTxnMarkerTopicResult] = {}
    for name, code in results.items():
        topic = topics.get(name.topic)
        if topic is None:
            topic = topics[name.topic] = WritableTxnMarkerTopicResult(name=name.topic)
        result = WritableTxnMarkerPartitionResult(partition_index=name.partition, error_code=code)
        topic.partitions.append(result)
    return list(topics.values())


def _error_response(request: WriteTxnMarkersRequest, error: ApiError) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=asked.producer_id,
                topics=_topics(dict.fromkeys(_partitions(asked), error.code)),
            )
            for asked in request.markers
        ]
    )


HANDLER = Handler(
    request=WriteTxnMarkersRequest,
    handle=handle,
    error_response=_error_response,
)
