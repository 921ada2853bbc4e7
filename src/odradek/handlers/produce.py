"""Appends the batches of a Produce request, and builds the response (`k00_produce`).

The batches are appended in the order of the request. If the validation of a batch would occupy the
event loop, this batch and the following ones wait until it has been validated on another thread.
Meanwhile no further request of the connection is processed (`Peer.pause`), so that the records of a
producer keep their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.transactional_produce import UNCONDITIONAL, Permission
from odradek.broker.partitions.partition import Partition
from odradek.env.executor import Pool, call
from odradek.env.file_range import FileRange
from odradek.handlers.leader_hints import leader_hint
from odradek.log.errors import LongValidation, RecordsRefused
from odradek.log.origin import AppendOrigin
from odradek.log.results import AppendInfo
from odradek.log.validation import Accepted, Effort, validate
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.records.batch import ATTRIBUTES, ATTRIBUTES_POSITION, CODEC_MASK, HEADER_SIZE, Buffer
from odradek.records.compression import Codec
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

TOPIC_IDS_VERSION: Final = 13
"""From this version on, topics are named by id."""
_ZSTD_VERSION: Final = 7
_ADMIN_CLIENT_ID: Final = "__admin_client"
_NOTHING: Final[Mapping[int, Partition]] = {}
_SHORT: Final = Effort.SHORT

Response = ProduceResponse | asyncio.Future[ProduceResponse] | None
"""The response, or a future of it if records are not acknowledged yet; None with acks=0."""
Appended = Response | Coroutine[Any, Any, Response]
Outcome = AppendInfo | ApiError
_Unacknowledged = tuple[Partition, int, PartitionProduceResponse]
"""A partition, the offset after the appended records, and the partition's response."""


def records_of(data: PartitionProduceData) -> Buffer | None:
    """Return the records of a partition."""
    records = data.records
    assert not isinstance(records, FileRange), "decoded records are bytes"
    return records


def keep_records(request: ProduceRequest) -> None:
    """Copy the records, because the receive buffer is reused when the handler has returned."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = records_of(data)
            if records is not None:
                data.records = bytearray(records)


class _Item(NamedTuple):
    """A partition of a request; `key` is the topic's name or id. `partition` is None if it is not on
    this broker."""

    key: str | bytes
    partition: Partition | None
    data: PartitionProduceData


def append_all(
    broker: Broker, context: RequestContext, request: ProduceRequest, permission: Permission
) -> Appended:
    """Append the batches; return the response, or a future of it.

    If a batch needs a long validation, return a coroutine that appends this batch and all following
    ones.
    """
    by_id = context.api_version >= TOPIC_IDS_VERSION
    work: list[_Item] = []
    for topic in request.topic_data:
        key = topic.topic_id if by_id else topic.name
        partitions = partitions_of(broker, context, topic)
        work += [_Item(key, partitions.get(data.index), data) for data in topic.partition_data]
    outcomes: list[Outcome] = []
    for item in work:
        try:
            outcomes.append(_append(broker, context, request, item, permission))
        except LongValidation:
            keep_records(request)
            context.peer.pause()
            return _append_rest(broker, context, request, permission, work, outcomes)
        except ApiError as error:
            outcomes.append(error)
    return _respond(broker, context.peer, request, work, outcomes)


async def _append_rest(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    permission: Permission,
    work: list[_Item],
    outcomes: list[Outcome],
) -> Response:
    """Append the batches that have no outcome yet; validate the first of them on another thread."""
    is_long = True
    try:
        while len(outcomes) < len(work):
            item = work[len(outcomes)]
            try:
                accepted = await _validate(broker, context, item) if is_long else None
                outcomes.append(_append(broker, context, request, item, permission, accepted))
                is_long = False
            except LongValidation:
                is_long = True
            except ApiError as error:
                outcomes.append(error)
                is_long = False
    finally:
        context.peer.resume()
    return _respond(broker, context.peer, request, work, outcomes)


def _respond(
    broker: Broker,
    peer: Peer,
    request: ProduceRequest,
    work: list[_Item],
    outcomes: list[Outcome],
) -> Response:
    """Return the response, or a future if records are not acknowledged yet; None with acks=0."""
    if not request.acks:
        if any(isinstance(outcome, ApiError) for outcome in outcomes):
            peer.close()
        return None
    count_errors(peer, outcomes)
    response = ProduceResponse()
    unacknowledged: list[_Unacknowledged] = []
    following = zip(work, outcomes, strict=True)
    for topic in request.topic_data:
        result = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        for data, ((key, partition, _), outcome) in zip(
            topic.partition_data, following, strict=False
        ):
            answer = answer_for(broker, peer, key, data.index, outcome, response)
            if partition is not None and isinstance(outcome, AppendInfo):
                end = outcome.last_offset + 1
                if not partition.is_acknowledged(end, request.acks):
                    unacknowledged.append((partition, end, answer))
            result.partition_responses.append(answer)
        response.responses.append(result)
    if not unacknowledged:
        return response

    def respond(failures: Mapping[int, ApiError | None]) -> ProduceResponse:
        for number, error in failures.items():
            partition, _, answer = unacknowledged[number]
            fail(broker, peer, partition, error, answer, response)
        return response

    ends = [(number, one, end) for number, (one, end, _) in enumerate(unacknowledged)]
    return when_acknowledged(broker, request.acks, request.timeout_ms, ends, respond)


def count_errors(peer: Peer, outcomes: list[Outcome]) -> None:
    """Count the batches that were not appended (metrics)."""
    codes = [int(each.code) for each in outcomes if isinstance(each, ApiError)]
    if codes:
        peer.count_errors(codes)


def answer_for(
    broker: Broker,
    peer: Peer,
    topic: str | bytes,
    index: int,
    outcome: Outcome,
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


def when_acknowledged(
    broker: Broker,
    acks: int,
    timeout_ms: int,
    unacknowledged: Sequence[tuple[int, Partition, int]],
    respond: Callable[[Mapping[int, ApiError | None]], Any],
) -> asyncio.Future[Any]:
    """Return a future of the response, which `respond` builds from the partitions that have failed.

    `unacknowledged` has a number for each partition and the offset after its appended records. The
    future completes when the records of each satisfy `acks` or have failed. If other brokers have
    replicas of a partition, it completes when the request times out, too. A failure has no error if
    the time is over.
    """
    future: asyncio.Future[Any] = broker.loop.create_future()
    waiting = {number for number, _, _ in unacknowledged}
    failures: dict[int, ApiError | None] = {}

    def time_out() -> None:
        if not future.done():
            failures.update(dict.fromkeys(waiting))
            future.set_result(respond(failures))

    if any(partition.is_replicated for _, partition, _ in unacknowledged):
        timer = broker.loop.call_later(timeout_ms / 1000, time_out)
        future.add_done_callback(lambda _: timer.cancel())

    def acknowledged(number: int, error: ApiError | None) -> None:
        if future.done():
            return
        waiting.discard(number)
        if error is not None:
            failures[number] = error
        if not waiting:
            future.set_result(respond(failures))

    for number, partition, offset in unacknowledged:
        partition.when_acknowledged(offset, acks, partial(acknowledged, number))
    return future


def fail(
    broker: Broker,
    peer: Peer,
    partition: Partition,
    error: ApiError | None,
    answer: PartitionProduceResponse,
    response: ProduceResponse,
) -> None:
    """Change the answer for records that were appended, but not acknowledged.

    There is no error if the request has timed out.
    """
    answer.base_offset = -1
    answer.error_code = ErrorCode.REQUEST_TIMED_OUT if error is None else error.code
    peer.count_errors([answer.error_code])
    if error is None:
        return
    answer.error_message = error.message
    if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        _name_leader(broker, peer, partition.topic, answer, response)


def partitions_of(
    broker: Broker, context: RequestContext, topic: TopicProduceData
) -> Mapping[int, Partition]:
    """Return the topic's partitions on this broker."""
    replicas = broker.replicas
    if context.api_version >= TOPIC_IDS_VERSION:
        return replicas.by_id.get(topic.topic_id, _NOTHING)
    return replicas.by_name.get(topic.name, _NOTHING)


def _append(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    item: _Item,
    permission: Permission,
    accepted: Accepted | None = None,
) -> AppendInfo:
    """Append the batch of a partition; `accepted` is the result of a long validation.

    Raises:
        ApiError: the batch is not appended.
        LongValidation: the batch has to be validated on another thread first.
    """
    key, partition, data = item
    if partition is None:
        raise ApiError(broker.replicas.why_missing(key, data.index))
    if request.acks not in {-1, 0, 1}:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if partition.is_internal and context.client_id != _ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    records = records_of(data)
    if records is None:
        raise ApiError(ErrorCode.INVALID_RECORD, "the partition has no records")
    if context.api_version < _ZSTD_VERSION and _is_zstd(records):
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd comes with Produce {_ZSTD_VERSION}, this is {context.api_version}",
        )
    guard = 0 if permission is UNCONDITIONAL else permission.guard(partition)
    return partition.append(records, request.acks, guard, _SHORT, accepted)


async def _validate(broker: Broker, context: RequestContext, item: _Item) -> Accepted:
    """Validate the batch of a partition on another thread. The quotas count the time that it takes.

    Raises:
        RecordsRefused: the batch is invalid.
    """
    partition, records = item.partition, records_of(item.data)
    assert partition is not None, "it has been checked"
    assert records is not None, "they have been checked"
    log = partition.log
    validation = partial(
        validate,
        records,
        AppendOrigin.CLIENT,
        log.config,
        log.topic_partition,
        broker.clock.now_ms(),
    )
    timed = partial(_timed, broker.clock.monotonic_ns, context, validation)
    return await call(broker.executor, timed, Pool.VALIDATION, broker.loop)


def _timed(
    now_ns: Callable[[], int], context: RequestContext, validation: Callable[[], Accepted]
) -> Accepted:
    """Call `validation`, and add its time to the request's. Runs on another thread."""
    started = now_ns()
    try:
        return validation()
    finally:
        context.add_work(now_ns() - started)


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
