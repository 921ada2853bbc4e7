"""OffsetDelete (47), version 0: delete a group's offsets of topics that no member subscribes to.

- If a member subscribes to the topic, the error is GROUP_SUBSCRIBED_TO_TOPIC.
- An unknown topic or partition gets the error UNKNOWN_TOPIC_OR_PARTITION. The offsets of all other
  partitions are deleted.
"""

from __future__ import annotations

import asyncio

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.core.metadata.image import TopicsImage
from odradek.handlers.authorization import GROUP, TOPIC, AclOperation, denied, require
from odradek.handlers.handler import Handler
from odradek.model.errors import ErrorCode
from odradek.wire.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.generated.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Delete offsets; return the results of all partitions."""
    require(broker, context, AclOperation.DELETE, GROUP, request.group_id)
    names = (topic.name for topic in request.topics)
    hidden = denied(broker, context, AclOperation.READ, TOPIC, names)
    topics = broker.metadata.image.topics
    refused = [
        _take_all(topic) if topic.name in hidden else _take_unknown(topics, topic)
        for topic in request.topics
    ]
    request.topics = [each for each in request.topics if each.partitions]
    answer = broker.coordinators.groups.delete_offsets(request)
    response: OffsetDeleteResponse = await answer if isinstance(answer, asyncio.Future) else answer
    for unknown in refused:
        if not unknown.partitions:
            continue
        known = next((each for each in response.topics if each.name == unknown.name), None)
        if known is None:
            response.topics.append(unknown)
        else:
            known.partitions.extend(unknown.partitions)
    return response


def _take_unknown(
    topics: TopicsImage, topic: OffsetDeleteRequestTopic
) -> OffsetDeleteResponseTopic:
    """Remove partitions that do not exist from the request; return their errors."""
    image = topics.by_name.get(topic.name)
    known = {} if image is None else image.partitions
    unknown = [each for each in topic.partitions if each.partition_index not in known]
    topic.partitions = [each for each in topic.partitions if each.partition_index in known]
    return _failed(topic.name, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _take_all(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    """Remove all partitions of a topic that the client may not read; return their errors."""
    taken, topic.partitions = topic.partitions, []
    return _failed(topic.name, taken, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _failed(
    name: str, partitions: list[OffsetDeleteRequestPartition], error: ErrorCode
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in partitions
        ],
    )


HANDLER = Handler(request=OffsetDeleteRequest, handle=handle)
