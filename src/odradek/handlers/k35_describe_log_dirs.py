"""DescribeLogDirs (35), versions 1-5: the log directories, their space, and the logs in them.

- If topics are null, all logs are listed. A failed log directory has the error KAFKA_STORAGE_ERROR.
- A log that will replace a log in another directory (AlterReplicaLogDirs) is a future log. Its
  offset lag is the number of records that it lacks, or -1 if the other log is offline.
- The size of a log is the size of its record batches, without indexes. The offset lag of a leader
  is 0.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.log import LogDirectory, PartitionLog
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.describe_log_dirs_request import DescribeLogDirsRequest
from odradek.wire.generated.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Return one result for each of `log.dirs`."""
    require_cluster(broker, context, AclOperation.DESCRIBE)
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {TopicPartition(t.topic, index) for t in request.topics for index in t.partitions}
    results = [
        _describe(broker, directory, wanted) for directory in broker.storage.logs.directories
    ]
    return DescribeLogDirsResponse(results=results)


def _describe(
    broker: Broker, directory: LogDirectory, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=directory.path)
    if directory.is_offline:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in broker.storage.logs.logs_in(directory):
        if wanted is not None and log.topic_partition not in wanted:
            continue
        name, index = log.topic_partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        lag = max(0, log.high_watermark - log.log_end_offset)
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=index, partition_size=log.size, offset_lag=lag)
        )
    for key, log in broker.storage.logs.futures.items():
        if log.directory is not directory:
            continue
        if wanted is not None and key not in wanted:
            continue
        topic = topics.setdefault(key.topic, DescribeLogDirsTopic(name=key.topic))
        current = broker.storage.logs.get(key)
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=key.partition,
                partition_size=log.size,
                offset_lag=-1 if current is None else _lag(log, current),
                is_future_key=True,
            )
        )
    result.topics = list(topics.values())
    try:
        result.total_bytes, result.usable_bytes = broker.storage.logs.storage.file_system.space(
            directory.path
        )
    except OSError as error:
        directory.fail("could not read its free space", error)
        return DescribeLogDirsResult(
            log_dir=directory.path, error_code=ErrorCode.KAFKA_STORAGE_ERROR
        )
    return result


def _lag(future: PartitionLog, current: PartitionLog) -> int:
    return max(0, current.log_end_offset - future.log_end_offset)


HANDLER = Handler(request=DescribeLogDirsRequest, handle=handle)
