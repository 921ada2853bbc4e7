"""Produce (0), versions 3-13: append record batches to partitions.

- acks 0, 1 and all (-1); anything else is INVALID_REQUIRED_ACKS. With acks 0 there is no
  answer, and an error closes the connection, so that the producer notices (as Apache Kafka).
- Each partition has a result of its own; what the log refuses comes with the indices of the
  refused records (KIP-467).
- From version 13 on partitions are named by topic id; an unknown one is UNKNOWN_TOPIC_ID.
- On NOT_LEADER_OR_FOLLOWER the answer names the leader (KIP-951).
- Internal topics accept records only from the client id `__admin_client`.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.partition import Partition
from odradek.env.file_range import FileRange
from odradek.handlers.handler import Handler
from odradek.log.errors import RecordsRefused
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire import single_produce
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC_IDS_VERSION = 13
ADMIN_CLIENT_ID = "__admin_client"
_NOTHING: Mapping[int, Partition] = {}


def quick(
    broker: Broker, frame: memoryview, position: int, version: int, correlation_id: int
) -> bytes | None:
    """Append one batch to one partition, and answer that it went well."""
    if version < single_produce.VERSION_MIN:
        return None
    found = single_produce.decode(frame, position, version)
    if found is None:
        return None
    acks, topic, index, records = found
    partition = broker.replicas.by_wire_topic.get(topic, _NOTHING).get(index)
    if partition is None or partition.is_internal or (acks != -1 and acks != 1):
        return None
    try:
        info = partition.append(records, acks)
    except ApiError:
        return None  # `handle` gets the same error, and says it
    return single_produce.encode_answer(
        correlation_id,
        topic,
        index,
        info.base_offset,
        info.log_append_time_ms,
        info.log_start_offset,
    )


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | None:
    """Append each partition's batches; the answer when all are as safe as `acks` asks."""
    response = ProduceResponse()
    failed = False
    for topic in request.topic_data:
        result = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        partitions, unknown = _partitions(broker, context, topic)
        for data in topic.partition_data:
            partition = partitions.get(data.index)
            try:
                if partition is None:
                    raise ApiError(unknown)
                answer = _append(context, request, partition, data)
            except ApiError as error:
                failed = True
                answer = _failed(data.index, error)
                if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition is not None:
                    _name_leader(broker, context, partition, answer, response)
            result.partition_responses.append(answer)
        response.responses.append(result)
    if request.acks:
        return response
    if failed:
        context.peer.close()
    return None


def _partitions(
    broker: Broker, context: RequestContext, topic: TopicProduceData
) -> tuple[Mapping[int, Partition], ErrorCode]:
    """The topic's partitions here, and the error for one that is not among them."""
    replicas = broker.replicas
    if context.api_version >= TOPIC_IDS_VERSION:
        by_id = replicas.by_id.get(topic.topic_id)
        if by_id is None:
            return {}, ErrorCode.UNKNOWN_TOPIC_ID
        return by_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return replicas.by_name.get(topic.name, {}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _append(
    context: RequestContext,
    request: ProduceRequest,
    partition: Partition,
    data: PartitionProduceData,
) -> PartitionProduceResponse:
    if request.acks not in {-1, 0, 1}:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if partition.is_internal and context.client_id != ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    records = data.records
    if records is None:
        raise ApiError(ErrorCode.INVALID_RECORD, "the partition has no records")
    assert not isinstance(records, FileRange), "decoded records are bytes"
    info = partition.append(records, request.acks)
    return PartitionProduceResponse(
        index=data.index,
        base_offset=info.base_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )


def _failed(index: int, error: ApiError) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(
        index=index, error_code=error.code, base_offset=-1, error_message=error.message
    )
    if isinstance(error, RecordsRefused):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in error.record_errors
        ]
    return answer


def _name_leader(
    broker: Broker,
    context: RequestContext,
    partition: Partition,
    answer: PartitionProduceResponse,
    response: ProduceResponse,
) -> None:
    """Tell the producer whom to ask instead, so that it need not fetch metadata (KIP-951)."""
    registration = partition.registration
    answer.current_leader = LeaderIdAndEpoch(
        leader_id=registration.leader, leader_epoch=registration.leader_epoch
    )
    leader = broker.metadata.image.cluster.brokers.get(registration.leader)
    endpoint = leader.listeners.get(context.peer.listener) if leader is not None else None
    if leader is None or endpoint is None:
        return
    if all(node.node_id != leader.id for node in response.node_endpoints):
        node = NodeEndpoint(
            node_id=leader.id, host=endpoint.host, port=endpoint.port, rack=leader.rack
        )
        response.node_endpoints.append(node)


HANDLER = Handler(
    request=ProduceRequest, versions=(3, 13), handle=handle, quick=quick, overlap=True
)
