"""DeleteRecords (21), versions 0-2: delete the records before an offset.

- Offset -1 means the high watermark. An offset above the high watermark gets the error
  OFFSET_OUT_OF_RANGE.
- The response has the low watermark: the lowest log start offset of the replicas. If other brokers
  have replicas, the response waits until the live ones have deleted the records. After the
  request's timeout the partition gets the error REQUEST_TIMED_OUT.
- Internal topics get the error INVALID_TOPIC_EXCEPTION. Topics whose cleanup policy does not
  include `delete` get the error POLICY_VIOLATION.
"""

from __future__ import annotations

import asyncio

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.partitions.partition import Partition
from odradek.handlers.authorization import TOPIC, AclOperation, denied
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.delete_records_request import DeleteRecordsRequest
from odradek.wire.generated.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_Waiting = tuple[Partition, int, DeleteRecordsPartitionResult]
"""A partition, the offset before which records are deleted, and the partition's response."""


def handle(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    """Delete records in each partition; the response contains the low watermarks."""
    response = DeleteRecordsResponse()
    waiting: list[_Waiting] = []
    names = (topic.name for topic in request.topics)
    refused = denied(broker, context, AclOperation.DELETE, TOPIC, names)
    for topic in request.topics:
        result = DeleteRecordsTopicResult(name=topic.name)
        for wanted in topic.partitions:
            answer = DeleteRecordsPartitionResult(
                partition_index=wanted.partition_index, low_watermark=-1
            )
            try:
                if topic.name in refused:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                partition = broker.replicas.find(topic.name, wanted.partition_index)
                answer.low_watermark = start = _delete(partition, wanted.offset)
                if partition.leading is not None and partition.leading.low_watermark < start:
                    waiting.append((partition, start, answer))
            except ApiError as error:
                answer.error_code = error.code
            result.partitions.append(answer)
        response.topics.append(result)
    if waiting:
        return _when_deleted(broker, request.timeout_ms, response, waiting)
    return response


def _when_deleted(
    broker: Broker, timeout_ms: int, response: DeleteRecordsResponse, waiting: list[_Waiting]
) -> asyncio.Future[DeleteRecordsResponse]:
    """Return a future of the response: the live replicas have deleted the records."""
    future: asyncio.Future[DeleteRecordsResponse] = broker.loop.create_future()
    left = dict(enumerate(waiting))

    def time_out() -> None:
        if not future.done():
            for _, _, answer in left.values():
                answer.low_watermark, answer.error_code = -1, ErrorCode.REQUEST_TIMED_OUT
            future.set_result(response)

    def wait(number: int, partition: Partition, offset: int) -> None:
        def deleted(low_watermark: int | None) -> None:
            if future.done():
                return
            _, _, answer = left.pop(number)
            if low_watermark is None:
                answer.low_watermark, answer.error_code = -1, ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                answer.low_watermark = low_watermark
            if not left:
                future.set_result(response)

        assert partition.leading is not None
        partition.leading.when_deleted(offset, deleted)

    timer = broker.loop.call_later(timeout_ms / 1000, time_out)
    future.add_done_callback(lambda _: timer.cancel())
    for number, (partition, offset, _) in enumerate(waiting):
        wait(number, partition, offset)
    return future


def _delete(partition: Partition, offset: int) -> int:
    if partition.is_internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition.check_leader()
    if "delete" not in partition.log.config.cleanup_policy:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "the topic is compacted, not deleted")
    return partition.delete_records_before(offset)


HANDLER = Handler(request=DeleteRecordsRequest, handle=handle)
