"""DeleteRecords (21), versions 0-2: delete the records before an offset.

- Offset -1 means the high watermark. An offset above the high watermark gets the error
  OFFSET_OUT_OF_RANGE.
- Internal topics get the error INVALID_TOPIC_EXCEPTION. Topics whose cleanup policy does not
  include `delete` get the error POLICY_VIOLATION.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.partition import Partition
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.delete_records_request import DeleteRecordsRequest
from odradek.wire.generated.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def handle(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Delete records in each partition; the response contains the new log start offsets."""
    response = DeleteRecordsResponse()
    for topic in request.topics:
        result = DeleteRecordsTopicResult(name=topic.name)
        for wanted in topic.partitions:
            answer = DeleteRecordsPartitionResult(
                partition_index=wanted.partition_index, low_watermark=-1
            )
            try:
                partition = broker.replicas.find(topic.name, wanted.partition_index)
                answer.low_watermark = _delete(partition, wanted.offset)
            except ApiError as error:
                answer.error_code = error.code
            result.partitions.append(answer)
        response.topics.append(result)
    return response


def _delete(partition: Partition, offset: int) -> int:
    if partition.is_internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition.check_leader()
    if "delete" not in partition.log.config.cleanup_policy:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "the topic is compacted, not deleted")
    return partition.log.delete_records_before(offset)


HANDLER = Handler(request=DeleteRecordsRequest, versions=(0, 2), handle=handle)
