"""TxnOffsetCommit (28), versions 0-6: a transaction commits offsets of a group.

- The offsets become visible when the transaction commits.
- From version 6 on topics are named by id (KIP-1319). An unknown topic id gets the error
  UNKNOWN_TOPIC_ID. An unknown topic name or partition gets the error UNKNOWN_TOPIC_OR_PARTITION. The
  offsets of all other partitions are written.
- If the group does not exist, or the member's epoch is old, the error is GROUP_ID_NOT_FOUND or
  STALE_MEMBER_EPOCH (before version 6: ILLEGAL_GENERATION).
- The group's partition of `__consumer_offsets` must belong to the transaction. From version 5 on
  the broker adds the partition (KIP-890).
- While the group's partition is loading, the error is COORDINATOR_LOAD_IN_PROGRESS. Clients before
  version 2 fail on this error. Therefore they get COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

import asyncio

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.errors import coordinator_error
from odradek.broker.coordinator.verification import Writer, protocol_of_offset_commit
from odradek.handlers.authorization import (
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    AclOperation,
    denied,
    require,
)
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import OFFSETS_TOPIC
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import NO_SEQUENCE
from odradek.wire.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.generated.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_VERSION = 2
TOPIC_IDS_VERSION = 6


async def handle(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Write the offsets of the partitions that exist; return the results of all partitions."""
    require(broker, context, AclOperation.WRITE, TRANSACTIONAL_ID, request.transactional_id)
    require(broker, context, AclOperation.READ, GROUP, request.group_id)
    answer = _refuse(broker, context, request)
    if request.topics:
        try:
            committed = await _commit(broker, context, request)
        except ApiError as error:
            code = coordinator_error(error).code
            is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if is_loading and context.api_version < LOADING_VERSION:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            committed = TxnOffsetCommitResponse(
                topics=[_failed(topic, code) for topic in request.topics]
            )
        _merge(answer, committed)
    return answer


def _refuse(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Remove what does not exist, and what the client may not read, from the request.

    Return the errors of these topics and partitions.
    """
    known = broker.metadata.image.topics
    by_id = context.api_version >= TOPIC_IDS_VERSION
    for topic in request.topics:
        image = known.by_id.get(topic.topic_id) if by_id else known.by_name.get(topic.name)
        if image is not None:
            topic.name, topic.topic_id = image.name, image.id
    names = [topic.name for topic in request.topics if topic.name or not by_id]
    refused = denied(broker, context, AclOperation.READ, TOPIC, names)
    answer = TxnOffsetCommitResponse()
    kept = []
    for topic in request.topics:
        if by_id and not topic.name:
            answer.topics.append(_failed(topic, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        if topic.name in refused:
            answer.topics.append(_failed(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        unknown = [
            each
            for each in topic.partitions
            if known.partition(topic.name, each.partition_index) is None
        ]
        if unknown:
            rest = [each for each in topic.partitions if each not in unknown]
            topic.partitions = unknown
            answer.topics.append(_failed(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = rest
        if topic.partitions:
            kept.append(topic)
    request.topics = kept
    return answer


async def _commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Confirm the group's partition, then call the group coordinator.

    Raises:
        ApiError: nothing is committed.
    """
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    index = broker.coordinators.groups.partition_for(request.group_id)
    guard = await _confirm(broker, context, request, index)
    shard = broker.coordinators.groups.runtime.shard(index)
    answer = shard.write_in_transaction(
        request.producer_id,
        request.producer_epoch,
        guard,
        shard.machine.commit.commit_in_transaction,
        request,
        context.api_version,
    )
    committed: TxnOffsetCommitResponse = (
        await answer if isinstance(answer, asyncio.Future) else answer
    )
    return committed


async def _confirm(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest, index: int
) -> int:
    """Return the guard for the batch; 0 if the transaction is already open.

    Raises:
        ApiError: the partition is not part of the transaction.
    """
    protocol = protocol_of_offset_commit(context.api_version)
    writer = Writer(request.transactional_id, request.producer_id, request.producer_epoch, protocol)
    partition = broker.replicas.find(OFFSETS_TOPIC, index)
    guards, failed = broker.coordinators.verification.begin(writer, {partition: NO_SEQUENCE})
    name = TopicPartition(OFFSETS_TOPIC, index)
    if name in failed:
        raise failed[name]
    if not guards:
        return 0
    refused = await broker.coordinators.verification.confirm(writer, guards)
    if name in refused:
        raise ApiError(refused[name])
    return guards[name]


def _failed(topic: TxnOffsetCommitRequestTopic, code: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ],
    )


def _merge(answer: TxnOffsetCommitResponse, more: TxnOffsetCommitResponse) -> None:
    """Add the results in `more` to `answer`, with one element per topic."""
    by_name = {topic.name: topic for topic in answer.topics}
    for topic in more.topics:
        known = by_name.get(topic.name)
        if known is None:
            answer.topics.append(topic)
        else:
            known.partitions.extend(topic.partitions)


HANDLER = Handler(request=TxnOffsetCommitRequest, handle=handle)
