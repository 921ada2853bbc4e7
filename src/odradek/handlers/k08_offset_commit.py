"""OffsetCommit (8), versions 2-10: a group commits offsets.

- Topics are named by id from version 10 on; an unknown one is UNKNOWN_TOPIC_ID. Otherwise an
  unknown topic or partition is UNKNOWN_TOPIC_OR_PARTITION; the others are committed.
- A group that does not exist is created by a commit without a generation (-1); with one it is
  ILLEGAL_GENERATION, from version 9 on GROUP_ID_NOT_FOUND.
- Metadata longer than offset.metadata.max.bytes is OFFSET_METADATA_TOO_LARGE, only for its
  partition.
- Partitions of one topic, without metadata, from version 8 on, take a fast path (`quick`).
- Versions 2-4 may have a retention time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.coordinator.shard import Answer
from odradek.core.group.group import Committer
from odradek.core.metadata.image import TopicImage, TopicsImage
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.wire import single_offset_commit
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_VERSION = 10


def quick(
    broker: Broker,
    _peer: Peer,
    frame: memoryview,
    position: int,
    version: int,
    correlation_id: int,
) -> bytes | None:
    """Commit offsets of one topic, and return the response without errors."""
    if version < single_offset_commit.VERSION_MIN:
        return None
    found = single_offset_commit.decode(frame, position, version)
    if found is None:
        return None
    group_id, epoch, member_id, instance_id, topic, partitions = found
    topics = broker.metadata.image.topics
    if version >= TOPIC_IDS_VERSION:
        image = topics.by_id.get(topic)
    else:
        image = topics.by_name.get(str(topic[1:], "utf-8", "replace"))
    if image is None:
        return None
    for each in partitions:
        if each[0] not in image.partitions:
            return None
    committer = Committer(member_id, instance_id, epoch, False, version)
    if not broker.groups.commit_at_once(group_id, committer, image, partitions):
        return None  # `handle` waits, or returns the error
    return single_offset_commit.encode_answer(correlation_id, topic, partitions)


def handle(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> Answer:
    """Commit what can be committed."""
    topics = broker.metadata.image.topics
    refused = _refuse_unknown(topics, request, context.api_version >= TOPIC_IDS_VERSION)
    if not refused:
        return broker.groups.commit_offsets(context, request)
    return _commit_others(broker, context, request, refused)


def _refuse_unknown(
    topics: TopicsImage, request: OffsetCommitRequest, by_id: bool
) -> list[OffsetCommitResponseTopic]:
    """Return errors for topics and partitions that do not exist, and remove them from the
    request."""
    refused: list[OffsetCommitResponseTopic] = []
    kept: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        image = topics.by_id.get(topic.topic_id) if by_id else topics.by_name.get(topic.name)
        unknown: Iterable[OffsetCommitRequestPartition]
        if image is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            unknown, topic.partitions = topic.partitions, []
        else:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic.name, topic.topic_id = image.name, image.id
            unknown = _take_unknown(image, topic)
        if unknown:
            refused.append(_failed(topic, unknown, error))
        if topic.partitions:
            kept.append(topic)
    if refused:
        request.topics = kept
    return refused


def _take_unknown(
    image: TopicImage, topic: OffsetCommitRequestTopic
) -> list[OffsetCommitRequestPartition]:
    known = image.partitions
    for each in topic.partitions:
        if each.partition_index not in known:
            break
    else:
        return []
    unknown = [each for each in topic.partitions if each.partition_index not in known]
    topic.partitions = [each for each in topic.partitions if each.partition_index in known]
    return unknown


def _failed(
    topic: OffsetCommitRequestTopic,
    partitions: Iterable[OffsetCommitRequestPartition],
    error: ErrorCode,
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in partitions
        ],
    )


async def _commit_others(
    broker: Broker,
    context: RequestContext,
    request: OffsetCommitRequest,
    refused: list[OffsetCommitResponseTopic],
) -> OffsetCommitResponse:
    """Commit the rest, and return the results of all, each topic once."""
    if not request.topics:
        return OffsetCommitResponse(topics=refused)
    try:
        answer = broker.groups.commit_offsets(context, request)
        response = await answer if isinstance(answer, asyncio.Future) else answer
    except ApiError as error:
        response = OffsetCommitResponse(
            topics=[_failed(topic, topic.partitions, error.code) for topic in request.topics]
        )
    by_name = {each.name: each for each in refused}
    for topic in response.topics:
        known = by_name.get(topic.name)
        if known is None:
            refused.append(topic)
        else:
            known.partitions.extend(topic.partitions)
    return OffsetCommitResponse(topics=refused)


HANDLER = Handler(request=OffsetCommitRequest, versions=(2, 10), handle=handle, quick=quick)
