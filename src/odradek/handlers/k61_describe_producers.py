"""DescribeProducers (61), version 0: the active producers of partitions (KIP-664)."""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import TOPIC, AclOperation, permits
from odradek.handlers.handler import Handler
from odradek.handlers.pieces import Pieces
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import name_problem
from odradek.wire.generated.describe_producers_request import DescribeProducersRequest
from odradek.wire.generated.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Return the producers of each partition, with the first offsets of their open transactions."""
    response = DescribeProducersResponse()
    for topic in request.topics:
        result = TopicResponse(name=topic.name)
        problem = name_problem(topic.name)
        is_allowed = problem is not None or permits(
            broker, context, AclOperation.READ, TOPIC, topic.name
        )
        for index in topic.partition_indexes:
            try:
                if problem is not None:
                    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
                if not is_allowed:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                answer = _describe(broker, topic.name, index)
            except ApiError as error:
                answer = PartitionResponse(error_code=error.code, error_message=error.message)
                if topic.name in broker.metadata.image.topics.by_name and is_allowed:
                    answer.error_message = error.details
            answer.partition_index = index
            result.partitions.append(answer)
        response.topics.append(result)
    return response


def _describe(broker: Broker, topic: str, index: int) -> PartitionResponse:
    partition = broker.replicas.find(topic, index)
    return PartitionResponse(
        active_producers=[
            ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.transaction_first_offset,
            )
            for each in partition.log.active_producers()
        ]
    )


HANDLER = Handler(
    request=DescribeProducersRequest,
    handle=handle,
    pieces=Pieces("topics", "topics", 100),
)
