"""OffsetFetch (9), versions 1-10: the committed offsets of groups.

- Before version 8 a request has one group, from version 8 on many groups. From version 2 on null
  topics request all topics.
- A partition without a committed offset has the offset -1, without an error. This also applies to a
  group that does not exist.
- From version 7 on a request may set `require_stable`. Then a partition with an offset in an open
  transaction gets the error UNSTABLE_OFFSET_COMMIT.
- From version 10 on topics are named by id. An unknown topic id gets the error UNKNOWN_TOPIC_ID.
- From version 8 on, the error of a group is in the result of the group. In versions 2-7 the error
  is in the response. In version 1 the error is in the result of each partition.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.shard import Answer
from odradek.core.group.offset_store import INVALID_OFFSET
from odradek.handlers.authorization import GROUP, TOPIC, AclOperation, denied, permits
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.uuids import ZERO
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_ERROR_VERSION = 2
GROUPS_VERSION = 8
TOPIC_IDS_VERSION = 10


class _Asked(NamedTuple):
    """A group of the request, divided into what is looked up and what has an error."""

    group: OffsetFetchRequestGroup
    """The topics that exist and that the client may see."""
    failed: list[OffsetFetchResponseTopics]


def handle(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> Any:
    """Return the offsets of all requested groups."""
    version = context.api_version
    groups = request.groups if version >= GROUPS_VERSION else [_only_group(request)]
    asked: list[_Asked] = []
    answers: list[Answer] = []
    for group in groups:
        if permits(broker, context, AclOperation.DESCRIBE, GROUP, group.group_id):
            asked.append(_asked(broker, context, group))
            answers.append(_fetch(broker, asked[-1].group, request.require_stable, version))
        else:
            asked.append(_Asked(group, []))
            answers.append(_failed(group, ErrorCode.GROUP_AUTHORIZATION_FAILED, version))
    if any(isinstance(each, asyncio.Future) for each in answers):
        return _wait(broker, context, asked, answers)
    found = zip(asked, answers, strict=True)
    return _response([_complete(broker, context, *each) for each in found], version)


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _asked(broker: Broker, context: RequestContext, group: OffsetFetchRequestGroup) -> _Asked:
    """Name the topics, and take out those that are unknown or that the client may not see."""
    by_id = context.api_version >= TOPIC_IDS_VERSION
    if group.topics is None or (not by_id and broker.authorizer is None):
        return _Asked(group, [])
    if by_id:
        known = broker.metadata.image.topics.by_id
        for topic in group.topics:
            image = known.get(topic.topic_id)
            topic.name = "" if image is None else image.name
    names = [each.name for each in group.topics if each.name or not by_id]
    hidden = denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)
    unknown = [each for each in group.topics if by_id and not each.name]
    failed = [_failed_topic(each, ErrorCode.UNKNOWN_TOPIC_ID) for each in unknown]
    failed += [
        _failed_topic(each, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for each in group.topics
        if each.name in hidden
    ]
    rest = OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=[e for e in group.topics if (e.name or not by_id) and e.name not in hidden],
    )
    return _Asked(rest, failed)


def _fetch(
    broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool, version: int
) -> Answer:
    """Return the offsets of one group, or a future of the offsets."""
    try:
        return broker.coordinators.groups.fetch_offsets(group, require_stable)
    except ApiError as error:
        return _failed(group, error.code, version)


async def _wait(
    broker: Broker, context: RequestContext, asked: list[_Asked], answers: list[Answer]
) -> OffsetFetchResponse:
    found = []
    version = context.api_version
    for each, answer in zip(asked, answers, strict=True):
        if isinstance(answer, asyncio.Future):
            try:
                answer = await answer
            except ApiError as error:
                code = error.code
                if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                    # Consumers before 3.9 do not expect this error in OffsetFetch.
                    code = ErrorCode.NOT_COORDINATOR
                answer = _failed(each.group, code, version)
        found.append(_complete(broker, context, each, answer))
    return _response(found, version)


def _complete(
    broker: Broker, context: RequestContext, asked: _Asked, answer: OffsetFetchResponseGroup
) -> OffsetFetchResponseGroup:
    """Add the topics with errors, and topic ids. Omit topics that the client may not see."""
    if answer.error_code != ErrorCode.NONE:
        return answer
    answer.topics.extend(asked.failed)
    if asked.group.topics is not None:
        return answer
    names = [each.name for each in answer.topics]
    hidden = denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)
    if hidden:
        answer.topics = [each for each in answer.topics if each.name not in hidden]
    if context.api_version >= TOPIC_IDS_VERSION:
        by_name = broker.metadata.image.topics.by_name
        for topic in answer.topics:
            image = by_name.get(topic.name)
            topic.topic_id = ZERO if image is None else image.id
        answer.topics = [each for each in answer.topics if each.topic_id != ZERO]
    return answer


def _failed(
    group: OffsetFetchRequestGroup, error: ErrorCode, version: int
) -> OffsetFetchResponseGroup:
    answer = OffsetFetchResponseGroup(group_id=group.group_id)
    if version >= GROUP_ERROR_VERSION:
        answer.error_code = error
    else:
        answer.topics = [_failed_topic(each, error) for each in group.topics or ()]
    return answer


def _failed_topic(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=INVALID_OFFSET, error_code=error
            )
            for index in topic.partition_indexes
        ],
    )


def _response(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= GROUPS_VERSION:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


HANDLER = Handler(request=OffsetFetchRequest, handle=handle)
