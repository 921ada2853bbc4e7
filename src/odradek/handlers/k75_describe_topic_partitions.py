"""DescribeTopicPartitions (75), version 0: topics and partitions, page by page (KIP-966).

- Topics are ordered by name, and partitions by index. A page contains as many partitions as the
  client and max.request.partition.size.limit allow, but at least one. The cursor of the response is
  the first partition of the next page.
- If a request contains no topics, all topics are described. If the topic of the request's cursor is
  not among the requested topics, the error is INVALID_REQUEST.
- In addition to the fields of Metadata, the response contains the eligible leader replicas.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.metadata.listener_view import ListenerView
from odradek.core.metadata.image import PartitionRegistration, TopicImage
from odradek.handlers.authorization import TOPIC, AclOperation, authorized_operations, denied
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import is_internal, name_problem
from odradek.wire.generated import describe_topic_partitions_response as wire
from odradek.wire.generated.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
)
from odradek.wire.generated.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

NO_LEADER = -1


def handle(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return one page.

    Raises:
        ApiError: INVALID_REQUEST: the cursor is not valid for the request.
    """
    image = broker.metadata.image
    view = ListenerView(image, broker.config, context.peer)
    names = _names(request, image.topics.by_name)
    refused = denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)
    start = request.cursor.partition_index if request.cursor is not None else 0
    limit = broker.config.max_request_partition_size_limit
    remaining = max(1, min(limit, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if name in refused:
            continue
        if remaining == 0:
            response.next_cursor = wire.Cursor(topic_name=name, partition_index=0)
            break
        first = start if request.cursor is not None and name == request.cursor.topic_name else 0
        topic = image.topics.by_name.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        end = min(len(topic.partitions), first + remaining)
        page = _topic(view, topic, range(first, end))
        response.topics.append(page)
        remaining -= len(page.partitions)
        if end < len(topic.partitions):
            response.next_cursor = wire.Cursor(topic_name=name, partition_index=end)
            break
    for topic_answer in response.topics:
        topic_answer.topic_authorized_operations = authorized_operations(
            broker, context, TOPIC, topic_answer.name or ""
        )
    if request.topics:
        response.topics += [_refused(name) for name in names if name in refused]
    return response


def _names(request: DescribeTopicPartitionsRequest, existing: Iterable[str]) -> list[str]:
    """Return the names of the topics from the cursor on, in order."""
    cursor = request.cursor
    names = {each.name for each in request.topics} or set(existing)
    if cursor is None:
        return sorted(names)
    if request.topics and cursor.topic_name not in names:
        problem = f"the cursor is at {cursor.topic_name}, which is not among the topics asked for"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    if cursor.partition_index < 0:
        problem = f"the cursor is at partition {cursor.partition_index}"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    return sorted(name for name in names if name >= cursor.topic_name)


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_valid = name_problem(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if is_valid
        else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=is_internal(name),
    )


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    """Return the result for a topic that the client may not see, whether it exists or not."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name
    )


def _topic(
    view: ListenerView, topic: TopicImage, indexes: range
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(view, index, topic.partitions[index]) for index in indexes],
    )


def _partition(
    view: ListenerView, index: int, partition: PartitionRegistration
) -> DescribeTopicPartitionsResponsePartition:
    has_leader = view.serves(partition.leader)
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=view.offline(partition),
    )


HANDLER = Handler(request=DescribeTopicPartitionsRequest, handle=handle)
