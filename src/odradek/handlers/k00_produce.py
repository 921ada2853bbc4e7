"""Produce (0), versions 3-13: append record batches to partitions.

- `acks` must be 0, 1 or all (-1). Any other value gets the error INVALID_REQUIRED_ACKS. With acks=0
  there is no response. An error then closes the connection, so that the producer notices the error
  (as in Apache Kafka).
- Each partition has its own result. If the log rejects records, the result contains their indexes
  (KIP-467).
- From version 13 on topics are named by id. An unknown topic id gets the error UNKNOWN_TOPIC_ID.
- If the error is NOT_LEADER_OR_FOLLOWER, the response contains the leader (KIP-951,
  `leader_hints`).
- Before version 7, records compressed with zstd are rejected (KIP-110).
- Internal topics accept records only from the client id `__admin_client`.
- The first batch of a transaction in a partition waits until the transaction coordinator has
  confirmed that the partition belongs to the transaction (KIP-890). Before version 12 the producer
  adds the partition to the transaction. From version 12 on the broker adds it.
- With acks=all the response waits until the records are committed. If the topic has
  `flush.messages=1`, the response waits until the records are flushed, also with acks=1. If other
  brokers have replicas, a partition whose records are not committed within the request's timeout
  gets the error REQUEST_TIMED_OUT. The records may still become committed.
- Most requests take the fast path (`quick`), which returns the same responses as `handle`.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Final

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.coordinator.verification import Turn
from odradek.broker.partition import ACKS_ALL, Committed, Partition
from odradek.broker.transactional_produce import (
    ATTRIBUTES_LOW_BYTE,
    UNCONDITIONAL,
    Permission,
    confirm,
    decide,
    is_transactional,
)
from odradek.env.file_range import FileRange
from odradek.handlers.authorization import (
    TOPIC,
    TRANSACTIONAL_ID,
    AclOperation,
    denied,
    require,
)
from odradek.handlers.handler import Handler
from odradek.handlers.leader_hints import leader_hint
from odradek.log.errors import RecordsRefused
from odradek.log.log_appender import AppendInfo
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.records.batch import (
    ATTRIBUTES,
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    TRANSACTIONAL_FLAG,
    Buffer,
)
from odradek.records.compression import Codec
from odradek.wire import quick_produce
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

ZSTD_VERSION: Final = 7
TOPIC_IDS_VERSION: Final = 13
ADMIN_CLIENT_ID: Final = "__admin_client"
_NOTHING: Final[Mapping[int, Partition]] = {}
_response_header: Final = struct.Struct(">iix").pack  # size, correlation id, no tags

Response = ProduceResponse | asyncio.Future[ProduceResponse] | None
_Answer = Response | Coroutine[Any, Any, ProduceResponse | None]
_Outcome = AppendInfo | ApiError
_Unacknowledged = tuple[Partition, int, PartitionProduceResponse]
"""A partition, the offset after the appended records, and the partition's response."""


def quick(
    broker: Broker,
    peer: Peer,
    frame: memoryview,
    position: int,
    version: int,
    correlation_id: int,
) -> bytes | None:
    """Append batches and return the encoded response.

    Return None if a batch is transactional or not committed immediately, or in a rare case that
    `handle` must process. Then nothing has been appended.
    """
    if version < quick_produce.VERSION_MIN:
        return None
    found = quick_produce.decode(frame, position, version)
    if found is None:
        return None
    acks, topics = found
    if acks != ACKS_ALL and acks != 1:
        return None
    by_wire_topic = broker.replicas.by_wire_topic
    work: list[tuple[Partition, memoryview]] = []
    for topic, batches in topics:
        partitions = by_wire_topic.get(topic, _NOTHING)
        for index, records in batches:
            partition = partitions.get(index)
            if (
                partition is None
                or partition.is_internal
                or not partition.commits_at_once
                or len(records) < HEADER_SIZE
                or records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG
            ):
                return None
            work.append((partition, records))
    authorizer = broker.authorizer
    if authorizer is not None:
        write = AclOperation.WRITE
        for partition, _ in work:
            if not authorizer.permits_quickly(peer, write, TOPIC, partition.topic):
                return None
    appended: list[AppendInfo] = []
    try:
        for partition, records in work:
            appended.append(partition.append(records, acks))
    except ApiError as error:
        outcomes: list[_Outcome] = [*appended, error]
        for partition, records in work[len(outcomes) :]:
            try:
                outcomes.append(partition.append(records, acks))
            except ApiError as another:
                outcomes.append(another)
        response = _response(broker, peer, topics, work, outcomes)
        body = response.encode(version)
        return _response_header(len(body) + 5, correlation_id) + body
    places = [(one.base_offset, one.log_append_time_ms, one.log_start_offset) for one in appended]
    return quick_produce.encode_answer(correlation_id, topics, places)


def _response(
    broker: Broker,
    peer: Peer,
    topics: list[quick_produce.TopicBatches],
    work: list[tuple[Partition, memoryview]],
    outcomes: list[_Outcome],
) -> ProduceResponse:
    """Return the response that `handle` returns if batches were rejected."""
    response = ProduceResponse()
    following = zip(work, outcomes, strict=True)
    for _, batches in topics:
        result = TopicProduceResponse()
        for (index, _), ((partition, _), outcome) in zip(batches, following, strict=False):
            result.name, result.topic_id = partition.topic, partition.topic_id
            answer = _answer(broker, peer, partition.topic, index, outcome, response)
            result.partition_responses.append(answer)
        response.responses.append(result)
    return response


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest, is_checked: bool = False
) -> _Answer:
    """Append the batches of each partition; return the response when all satisfy `acks`.

    `is_checked` says whether the authorizer has checked the request.
    """
    if broker.authorizer is not None and not is_checked:
        return _check_and_handle(broker, context, request)
    transactional_id = request.transactional_id
    if transactional_id is None:
        for topic in request.topic_data:
            for data in topic.partition_data:
                if is_transactional(_bytes(data)):
                    raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _append_all(broker, context, request, UNCONDITIONAL)
    records = _records_of(broker, context, request)
    permission = decide(broker.verification, transactional_id, context.api_version, records)
    if permission.turn is not None:
        _keep_records(request)
        return _confirm_and_append(broker, context, request, permission, permission.turn)
    return _append_all(broker, context, request, permission)


def _check_and_handle(broker: Broker, context: RequestContext, request: ProduceRequest) -> _Answer:
    """Append the batches of the topics that the client may write to."""
    transactional_id = request.transactional_id
    if _has_transactional(request):
        if transactional_id is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        require(broker, context, AclOperation.WRITE, TRANSACTIONAL_ID, transactional_id)
    refused = _refuse_unauthorized(broker, context, request)
    if not refused:
        return handle(broker, context, request, is_checked=True)
    if request.topic_data:
        rest = handle(broker, context, request, is_checked=True)
    else:
        rest = ProduceResponse()
    if rest is None or isinstance(rest, ProduceResponse):
        return _with_refused(context, request, rest, refused)
    return _later(context, request, rest, refused)


async def _later(
    context: RequestContext,
    request: ProduceRequest,
    rest: Awaitable[ProduceResponse | None],
    refused: list[TopicProduceResponse],
) -> ProduceResponse | None:
    return _with_refused(context, request, await rest, refused)


def _with_refused(
    context: RequestContext,
    request: ProduceRequest,
    rest: ProduceResponse | None,
    refused: list[TopicProduceResponse],
) -> ProduceResponse | None:
    """Add the errors to the response; without a response (acks=0), close the connection."""
    if not request.acks:
        context.peer.close()
        return None
    assert rest is not None
    rest.responses += refused
    return rest


def _has_transactional(request: ProduceRequest) -> bool:
    return any(
        is_transactional(_bytes(data))
        for topic in request.topic_data
        for data in topic.partition_data
    )


def _refuse_unauthorized(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> list[TopicProduceResponse]:
    """Remove the topics that the client may not write to from the request; return their errors."""
    names: dict[str | bytes, str] = {}
    by_id = broker.metadata.image.topics.by_id
    for topic in request.topic_data:
        if context.api_version < TOPIC_IDS_VERSION:
            names[topic.name] = topic.name
        elif topic.topic_id in by_id:
            names[topic.topic_id] = by_id[topic.topic_id].name
    hidden = denied(broker, context, AclOperation.WRITE, TOPIC, names.values())
    if not hidden:
        return []
    refused: list[TopicProduceResponse] = []
    kept: list[TopicProduceData] = []
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for topic in request.topic_data:
        key = topic.name if context.api_version < TOPIC_IDS_VERSION else topic.topic_id
        if names.get(key) not in hidden:
            kept.append(topic)
            continue
        results = [
            PartitionProduceResponse(
                index=data.index, error_code=error, base_offset=-1, error_message=error.message
            )
            for data in topic.partition_data
        ]
        refused.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=results
            )
        )
    request.topic_data = kept
    return refused


def _records_of(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> dict[Partition, Buffer]:
    """Return the records of each partition that is on this broker."""
    found = {}
    for topic in request.topic_data:
        partitions = _partitions(broker, context, topic)
        for data in topic.partition_data:
            partition = partitions.get(data.index)
            records = _bytes(data)
            if partition is not None and records is not None:
                found[partition] = records
    return found


def _bytes(data: PartitionProduceData) -> Buffer | None:
    records = data.records
    assert not isinstance(records, FileRange), "decoded records are bytes"
    return records


def _keep_records(request: ProduceRequest) -> None:
    """Copy the records, because the receive buffer is reused when the handler has returned."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = _bytes(data)
            if records is not None:
                data.records = bytearray(records)


async def _confirm_and_append(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    permission: Permission,
    turn: Turn,
) -> ProduceResponse | None:
    """Append after the coordinator has confirmed the first batches of the transaction."""
    async with turn:
        await confirm(broker.verification, permission)
        response = _append_all(broker, context, request, permission)
    return await response if isinstance(response, asyncio.Future) else response


def _append_all(
    broker: Broker, context: RequestContext, request: ProduceRequest, permission: Permission
) -> Response:
    peer = context.peer
    response = ProduceResponse()
    unacknowledged: list[_Unacknowledged] = []
    failed = False
    by_id = context.api_version >= TOPIC_IDS_VERSION
    for topic in request.topic_data:
        result = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        key = topic.topic_id if by_id else topic.name
        partitions = _partitions(broker, context, topic)
        for data in topic.partition_data:
            partition = partitions.get(data.index)
            outcome: _Outcome
            try:
                if partition is None:
                    raise ApiError(broker.replicas.why_missing(key, data.index))
                outcome = _append(context, request, partition, data, permission)
            except ApiError as error:
                failed = True
                outcome = error
            answer = _answer(broker, peer, key, data.index, outcome, response)
            if partition is not None and request.acks and isinstance(outcome, AppendInfo):
                end = outcome.last_offset + 1
                if not partition.is_acknowledged(end, request.acks):
                    unacknowledged.append((partition, end, answer))
            result.partition_responses.append(answer)
        response.responses.append(result)
    if unacknowledged:
        return _when_acknowledged(broker, peer, request, response, unacknowledged)
    if request.acks:
        return response
    if failed:
        peer.close()
    return None


def _answer(
    broker: Broker,
    peer: Peer,
    topic: str | bytes,
    index: int,
    outcome: _Outcome,
    response: ProduceResponse,
) -> PartitionProduceResponse:
    """Return the response for one partition; `topic` is the topic's name or id.

    If another broker leads the partition, its endpoint is added to `response`.
    """
    if isinstance(outcome, AppendInfo):
        return PartitionProduceResponse(
            index=index,
            base_offset=outcome.base_offset,
            log_append_time_ms=outcome.log_append_time_ms,
            log_start_offset=outcome.log_start_offset,
        )
    answer = PartitionProduceResponse(
        index=index, error_code=outcome.code, base_offset=-1, error_message=outcome.message
    )
    if isinstance(outcome, RecordsRefused):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
            for at, message in outcome.record_errors
        ]
    if outcome.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        _name_leader(broker, peer, topic, answer, response)
    return answer


def _when_acknowledged(
    broker: Broker,
    peer: Peer,
    request: ProduceRequest,
    response: ProduceResponse,
    unacknowledged: list[_Unacknowledged],
) -> asyncio.Future[ProduceResponse]:
    """Return a future of the response.

    It completes when the appended records of each partition satisfy `acks` or have failed. If other
    brokers have replicas of a partition, it completes when the request times out, too.
    """
    future: asyncio.Future[ProduceResponse] = broker.loop.create_future()
    waiting = {number: answer for number, (_, _, answer) in enumerate(unacknowledged)}

    def time_out() -> None:
        if future.done():
            return
        for answer in waiting.values():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            answer.base_offset = -1
        future.set_result(response)

    if any(partition.is_replicated for partition, _, _ in unacknowledged):
        timer = broker.loop.call_later(request.timeout_ms / 1000, time_out)
        future.add_done_callback(lambda _: timer.cancel())

    def callback(number: int, partition: Partition, answer: PartitionProduceResponse) -> Committed:
        def acknowledged(error: ApiError | None) -> None:
            if future.done():
                return
            del waiting[number]
            if error is not None:
                answer.error_code = error.code
                answer.error_message = error.message
                answer.base_offset = -1
                if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    _name_leader(broker, peer, partition.topic, answer, response)
            if not waiting:
                future.set_result(response)

        return acknowledged

    for number, (partition, offset, answer) in enumerate(unacknowledged):
        partition.when_acknowledged(offset, request.acks, callback(number, partition, answer))
    return future


def _partitions(
    broker: Broker, context: RequestContext, topic: TopicProduceData
) -> Mapping[int, Partition]:
    """Return the topic's partitions on this broker."""
    replicas = broker.replicas
    if context.api_version >= TOPIC_IDS_VERSION:
        return replicas.by_id.get(topic.topic_id, _NOTHING)
    return replicas.by_name.get(topic.name, _NOTHING)


def _append(
    context: RequestContext,
    request: ProduceRequest,
    partition: Partition,
    data: PartitionProduceData,
    permission: Permission,
) -> AppendInfo:
    if request.acks not in {-1, 0, 1}:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if partition.is_internal and context.client_id != ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    records = _bytes(data)
    if records is None:
        raise ApiError(ErrorCode.INVALID_RECORD, "the partition has no records")
    if context.api_version < ZSTD_VERSION and _is_zstd(records):
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd comes with Produce {ZSTD_VERSION}, this is {context.api_version}",
        )
    guard = 0 if permission is UNCONDITIONAL else permission.guard(partition)
    return partition.append(records, request.acks, guard)


def _is_zstd(records: Buffer) -> bool:
    if len(records) < HEADER_SIZE:
        return False
    attributes: int = ATTRIBUTES.unpack_from(records, ATTRIBUTES_POSITION)[0]
    return attributes & CODEC_MASK == Codec.ZSTD


def _name_leader(
    broker: Broker,
    peer: Peer,
    topic: str | bytes,
    answer: PartitionProduceResponse,
    response: ProduceResponse,
) -> None:
    """Add the current leader to the response."""
    hint = leader_hint(broker, peer, topic, answer.index)
    answer.current_leader = LeaderIdAndEpoch(
        leader_id=hint.leader_id, leader_epoch=hint.leader_epoch
    )
    address = hint.address
    if address is not None and all(
        node.node_id != hint.leader_id for node in response.node_endpoints
    ):
        response.node_endpoints.append(
            NodeEndpoint(
                node_id=hint.leader_id, host=address.host, port=address.port, rack=hint.rack
            )
        )


def _error_response(request: ProduceRequest, error: ApiError) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=error.code,
                        base_offset=-1,
                        error_message=error.message,
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


HANDLER = Handler(
    request=ProduceRequest,
    versions=(3, 13),
    handle=handle,
    quick=quick,
    overlap=True,
    error_response=_error_response,
)
