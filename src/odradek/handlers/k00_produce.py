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
- Batches whose validation would occupy the event loop are validated on another thread (`produce`).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, Final

from odradek.broker.access.authorizer import Authorizer
from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.transactional_produce import (
    ATTRIBUTES_LOW_BYTE,
    UNCONDITIONAL,
    Permission,
    confirm,
    decide,
    is_transactional,
)
from odradek.broker.coordinator.verification import Turn
from odradek.broker.partitions.partition import ACKS_ALL, Partition
from odradek.handlers.authorization import (
    TOPIC,
    TRANSACTIONAL_ID,
    AclOperation,
    denied,
    require,
)
from odradek.handlers.handler import NO_RESPONSE, Handler
from odradek.handlers.produce import (
    TOPIC_IDS_VERSION,
    Appended,
    Outcome,
    Response,
    answer_for,
    append_all,
    count_errors,
    fail,
    keep_records,
    partitions_of,
    records_of,
    when_acknowledged,
)
from odradek.log.errors import LongValidation
from odradek.log.results import AppendInfo
from odradek.log.validation import Effort
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.records.batch import (
    HEADER_SIZE,
    TRANSACTIONAL_FLAG,
    Buffer,
)
from odradek.wire import quick_produce
from odradek.wire.generated.produce_request import (
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

_NOTHING: Final[Mapping[int, Partition]] = {}
_FULL: Final = Effort.FULL
_NONE: Final = Effort.NONE
_SHORT: Final = Effort.SHORT
_response_header: Final = struct.Struct(">iix").pack  # size, correlation id, no tags

_Answer = Response | Coroutine[Any, Any, ProduceResponse | None]
_Work = list[tuple[Partition, memoryview]]


def quick(
    broker: Broker,
    peer: Peer,
    frame: memoryview,
    position: int,
    version: int,
    correlation_id: int,
) -> bytes | asyncio.Future[bytes] | None:
    """Append batches and return the encoded response, or a future of it (see `QuickFunction`).

    Return None if a batch is transactional or needs a long validation, or in a rare case that
    `handle` must process. Then nothing has been appended.
    """
    if version < quick_produce.VERSION_MIN:
        return None
    found = quick_produce.decode(frame, position, version)
    if found is None:
        return None
    acks, timeout_ms, topics = found
    if not ACKS_ALL <= acks <= 1:
        return None
    work = _find(broker, topics)
    if work is None or not _permits(broker.authorizer, peer, work):
        return None
    appended: list[AppendInfo] = []
    effort = _SHORT
    try:
        if len(work) > 1:
            effort = _effort(work)
        for partition, records in work:
            appended.append(partition.append(records, acks, 0, effort))
    except LongValidation:
        return None
    except ApiError as error:
        outcomes: list[Outcome] = [*appended, error]
        for partition, records in work[len(outcomes) :]:
            try:
                outcomes.append(partition.append(records, acks, 0, effort))
            except ApiError as another:
                outcomes.append(another)
        if acks:
            count_errors(peer, outcomes)
            answers = _Answers(broker, peer, version, correlation_id, topics, work, outcomes)
            return answers.complete(acks, timeout_ms, None)
        peer.close()
        return NO_RESPONSE
    if not acks:
        return NO_RESPONSE
    places = [(one.base_offset, one.log_append_time_ms, one.log_start_offset) for one in appended]
    answer = quick_produce.encode_answer(correlation_id, topics, places)
    if _commits_at_once(work):
        return answer
    answers = _Answers(broker, peer, version, correlation_id, topics, work, appended)
    return answers.complete(acks, timeout_ms, answer)


def _commits_at_once(work: _Work) -> bool:
    """Return whether the records that were appended are committed already."""
    for partition, _ in work:  # noqa: SIM110  a generator costs as much as the append of a small batch
        if not partition.commits_at_once:
            return False
    return True


def _find(broker: Broker, topics: list[quick_produce.TopicBatches]) -> _Work | None:
    """Return the partitions with their records; None if `handle` must process one of them."""
    by_wire_topic = broker.replicas.by_wire_topic
    work: _Work = []
    for topic, batches in topics:
        partitions = by_wire_topic.get(topic, _NOTHING)
        for index, records in batches:
            partition = partitions.get(index)
            if (
                partition is None
                or partition.is_internal
                or len(records) < HEADER_SIZE
                or records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG
            ):
                return None
            work.append((partition, records))
    return work


def _permits(authorizer: Authorizer | None, peer: Peer, work: _Work) -> bool:
    if authorizer is None:
        return True
    write = AclOperation.WRITE
    for partition, _ in work:
        if not authorizer.permits_quickly(peer, write, TOPIC, partition.topic):
            return False
    return True


def _effort(work: _Work) -> Effort:
    """Return the effort that is enough for all batches. Nothing has been appended yet.

    Raises:
        LongValidation: a batch may need a long validation.
    """
    effort = _NONE
    for partition, records in work:
        if not partition.log.appender.is_simple(records):
            effort = _FULL
    return effort


class _Answers:
    """The response to a request of which a batch was rejected, or is not acknowledged yet."""

    __slots__ = (
        "_broker",
        "_correlation_id",
        "_indexes",
        "_outcomes",
        "_partitions",
        "_peer",
        "_version",
    )

    def __init__(
        self,
        broker: Broker,
        peer: Peer,
        version: int,
        correlation_id: int,
        topics: list[quick_produce.TopicBatches],
        work: _Work,
        outcomes: Sequence[Outcome],
    ) -> None:
        """Keep nothing of the receive buffer, which is reused."""
        self._broker = broker
        self._peer = peer
        self._version = version
        self._correlation_id = correlation_id
        self._indexes = [[index for index, _ in batches] for _, batches in topics]
        self._partitions = [partition for partition, _ in work]
        self._outcomes = outcomes

    def complete(
        self, acks: int, timeout_ms: int, answer: bytes | None
    ) -> bytes | asyncio.Future[bytes]:
        """Return the response, or a future if records are not acknowledged yet.

        `answer` is the response if everything succeeds; None if a batch was rejected.
        """
        unacknowledged = []
        for number, outcome in enumerate(self._outcomes):
            if isinstance(outcome, AppendInfo):
                partition, end = self._partitions[number], outcome.last_offset + 1
                if not partition.is_acknowledged(end, acks):
                    unacknowledged.append((number, partition, end))
        if not unacknowledged:
            return self._encoded({}) if answer is None else answer

        def respond(failures: Mapping[int, ApiError | None]) -> bytes:
            return self._encoded(failures) if failures or answer is None else answer

        return when_acknowledged(self._broker, acks, timeout_ms, unacknowledged, respond)

    def _encoded(self, failures: Mapping[int, ApiError | None]) -> bytes:
        """Return the response that `handle` returns."""
        broker, peer = self._broker, self._peer
        response = ProduceResponse()
        number = 0
        for indexes in self._indexes:
            result = TopicProduceResponse()
            for index in indexes:
                partition, outcome = self._partitions[number], self._outcomes[number]
                result.name, result.topic_id = partition.topic, partition.topic_id
                answer = answer_for(broker, peer, partition.topic, index, outcome, response)
                if number in failures:
                    fail(broker, peer, partition, failures[number], answer, response)
                result.partition_responses.append(answer)
                number += 1
            response.responses.append(result)
        body = response.encode(self._version)
        return _response_header(len(body) + 5, self._correlation_id) + body


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
                if is_transactional(records_of(data)):
                    raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _now_or_later(append_all(broker, context, request, UNCONDITIONAL))
    records = _batches(broker, context, request)
    permission = decide(
        broker.coordinators.verification, transactional_id, context.api_version, records
    )
    if permission.turn is not None:
        keep_records(request)
        return _confirm_and_append(broker, context, request, permission, permission.turn)
    return _now_or_later(append_all(broker, context, request, permission))


def _now_or_later(answer: Appended) -> _Answer:
    return _when_appended(answer) if isinstance(answer, Coroutine) else answer


async def _when_appended(appended: Awaitable[Response]) -> ProduceResponse | None:
    response = await appended
    return await response if isinstance(response, asyncio.Future) else response


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
        is_transactional(records_of(data))
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
                index=data.index, error_code=error, base_offset=-1, error_message=None
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


def _batches(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> dict[Partition, Buffer]:
    """Return the records of each partition that is on this broker."""
    found = {}
    for topic in request.topic_data:
        partitions = partitions_of(broker, context, topic)
        for data in topic.partition_data:
            partition = partitions.get(data.index)
            records = records_of(data)
            if partition is not None and records is not None:
                found[partition] = records
    return found


async def _confirm_and_append(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    permission: Permission,
    turn: Turn,
) -> ProduceResponse | None:
    """Append after the coordinator has confirmed the first batches of the transaction."""
    async with turn:
        await confirm(broker.coordinators.verification, permission)
        answer = append_all(broker, context, request, permission)
        response = await answer if isinstance(answer, Coroutine) else answer
    return await response if isinstance(response, asyncio.Future) else response


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
                        error_message=error.details,
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


HANDLER = Handler(
    request=ProduceRequest,
    handle=handle,
    quick=quick,
    overlap=True,
    error_response=_error_response,
)
