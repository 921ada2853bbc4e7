"""OffsetCommit (8), versions 2-10: a group commits offsets.

- From version 10 on topics are named by id. An unknown topic id gets the error UNKNOWN_TOPIC_ID. An
  unknown topic name or partition gets the error UNKNOWN_TOPIC_OR_PARTITION. The offsets of all
  other partitions are committed.
- If the group does not exist, a commit without a generation (-1) creates the group. A commit with a
  generation gets the error GROUP_ID_NOT_FOUND (before version 9: ILLEGAL_GENERATION).
- If the metadata of a partition is longer than offset.metadata.max.bytes, this partition gets the
  error OFFSET_METADATA_TOO_LARGE.
- From version 8 on, most requests with one topic and without metadata take the fast path (`quick`).
- Versions 2-4 may contain a retention time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.shard import Answer
from odradek.core.group.group import Committer
from odradek.core.metadata.image import TopicImage, TopicsImage
from odradek.handlers.authorization import GROUP, TOPIC, AclOperation, denied, require
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
    peer: Peer,
    frame: memoryview,
    position: int,
    version: int,
    correlation_id: int,
) -> bytes | None:
    """Commit offsets of one topic and return the encoded response.

    Return None if the commit cannot be completed now without errors. Then nothing has changed.
    """
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
    authorizer = broker.authorizer
    if authorizer is not None:
        read = AclOperation.READ
        if not authorizer.permits_quickly(peer, read, GROUP, group_id):
            return None
        if not authorizer.permits_quickly(peer, read, TOPIC, image.name):
            return None
    committer = Committer(member_id, instance_id, epoch, False, version)
    if not broker.coordinators.groups.commit_at_once(group_id, committer, image, partitions):
        return None  # `handle` waits, or returns the error
    return single_offset_commit.encode_answer(correlation_id, topic, partitions)


def handle(broker: Broker, context: RequestContext, request: OffsetCommitRequest) -> Answer:
    """Commit the offsets of the partitions that exist; return the results of all partitions."""
    topics = broker.metadata.image.topics
    by_id = context.api_version >= TOPIC_IDS_VERSION
    refused: list[OffsetCommitResponseTopic] = []
    if broker.authorizer is not None:
        require(broker, context, AclOperation.READ, GROUP, request.group_id)
        refused = _refuse_unreadable(broker, context, request, by_id)
    refused += _refuse_unknown(topics, request, by_id)
    if not refused:
        return broker.coordinators.groups.commit_offsets(context, request)
    return _commit_others(broker, context, request, refused)


def _refuse_unreadable(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest, by_id: bool
) -> list[OffsetCommitResponseTopic]:
    """Remove topics that the client may not read from the request; return their errors."""
    if by_id:
        known = broker.metadata.image.topics.by_id
        for topic in request.topics:
            image = known.get(topic.topic_id)
            topic.name = "" if image is None else image.name
    names = [topic.name for topic in request.topics if topic.name or not by_id]
    hidden = denied(broker, context, AclOperation.READ, TOPIC, names)
    if not hidden:
        return []
    refused = [topic for topic in request.topics if topic.name in hidden]
    request.topics = [topic for topic in request.topics if topic.name not in hidden]
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [_failed(topic, topic.partitions, error) for topic in refused]


def _refuse_unknown(
    topics: TopicsImage, request: OffsetCommitRequest, by_id: bool
) -> list[OffsetCommitResponseTopic]:
    """Remove topics and partitions that do not exist from the request; return their errors."""
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
    """Commit the rest; return the results of all partitions, with one element per topic."""
    if not request.topics:
        return OffsetCommitResponse(topics=refused)
    try:
        answer = broker.coordinators.groups.commit_offsets(context, request)
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


HANDLER = Handler(request=OffsetCommitRequest, handle=handle, quick=quick)
