"""ListOffsets (2), versions 1-11: find offsets by timestamp, and the ends of a partition.

- Negative timestamps have special meanings:
    -1: the latest offset (the high watermark, with `read_committed` the last stable offset)
    -2: the earliest offset
    -3: the offset of the record with the largest timestamp (from version 7 on)
    -4: the earliest local offset (from version 8 on)
    -5: the latest tiered offset (from version 9 on)
    -6: the earliest offset that is not tiered yet (from version 11 on)
- A negative timestamp that the version does not have gets the error UNSUPPORTED_VERSION.
- The offset is -1, without an error, if all records are earlier than the timestamp, or if consumers
  may not read the found record yet.
- A new leader may not know yet what its predecessor had committed. Until its high watermark has
  reached the start of its epoch, consumers get the error OFFSET_NOT_AVAILABLE (KIP-207), before
  version 5 LEADER_NOT_AVAILABLE, if the offset would be at or above the high watermark.
- If a request contains a partition twice, the partition gets the error INVALID_REQUEST.
- If data is not in the page cache, a thread reads it first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Coroutine

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.partition import Partition
from odradek.env.file_system import FileSystem
from odradek.env.page_cache import ReadWouldBlock
from odradek.handlers.authorization import TOPIC, AclOperation, denied
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from odradek.wire.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4
VERSION_MIN_OF_SPECIAL = {LATEST: 1, EARLIEST: 1, -3: 7, EARLIEST_LOCAL: 8, -5: 9, -6: 11}
READ_COMMITTED = 1
CONSUMER_ID = -1
DEBUGGING_CONSUMER_ID = -2


def handle(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[None, None, ListOffsetsResponse]:
    """Return one result per partition."""
    names = (topic.name for topic in request.topics)
    refused = denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)

    def look(files: FileSystem) -> ListOffsetsResponse:
        return _answer(broker, context, request, refused, files)

    try:
        return look(broker.cold_reads.non_blocking)
    except ReadWouldBlock as missing:
        return broker.cold_reads.look_again(look, missing)


def _answer(
    broker: Broker,
    context: RequestContext,
    request: ListOffsetsRequest,
    refused: Collection[str],
    files: FileSystem,
) -> ListOffsetsResponse:
    missing: list[ReadWouldBlock] = []
    named = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    response = ListOffsetsResponse()
    for topic in request.topics:
        result = ListOffsetsTopicResponse(name=topic.name)
        for wanted in topic.partitions:
            try:
                if topic.name in refused:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if named[topic.name, wanted.partition_index] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                version_min = VERSION_MIN_OF_SPECIAL.get(wanted.timestamp, 1000)
                if wanted.timestamp < 0 and context.api_version < version_min:
                    raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
                partition = broker.replicas.find(topic.name, wanted.partition_index)
                answer = _look_up(partition, wanted, request, files)
            except ApiError as error:
                code = error.code
                if code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < 5:
                    code = ErrorCode.LEADER_NOT_AVAILABLE
                answer = ListOffsetsPartitionResponse(error_code=code)
            except ReadWouldBlock as part:
                missing.append(part)
                continue
            answer.partition_index = wanted.partition_index
            result.partitions.append(answer)
        response.topics.append(result)
    if missing:
        raise ReadWouldBlock.all_of(missing)
    return response


def _look_up(
    partition: Partition,
    wanted: ListOffsetsPartition,
    request: ListOffsetsRequest,
    files: FileSystem,
) -> ListOffsetsPartitionResponse:
    partition.check_epoch(wanted.current_leader_epoch)
    if request.replica_id != DEBUGGING_CONSUMER_ID:
        partition.check_leader()
    log = partition.log
    limit = log.log_end_offset
    if request.replica_id == CONSUMER_ID:
        committed = request.isolation_level == READ_COMMITTED
        limit = log.last_stable_offset if committed else log.high_watermark
    is_late = request.replica_id == CONSUMER_ID and partition.is_behind_epoch
    if is_late and wanted.timestamp == LATEST:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    if wanted.timestamp == LATEST:
        return ListOffsetsPartitionResponse(
            offset=limit, leader_epoch=partition.registration.leader_epoch
        )
    found = log.offset_for_timestamp(wanted.timestamp, files)
    if found is None:
        return ListOffsetsPartitionResponse()
    if found.offset >= limit and wanted.timestamp not in {EARLIEST, EARLIEST_LOCAL}:
        if is_late:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return ListOffsetsPartitionResponse()
    return ListOffsetsPartitionResponse(
        timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
    )


HANDLER = Handler(request=ListOffsetsRequest, versions=(1, 11), handle=handle)
