"""AlterReplicaLogDirs (34), versions 1-2: move replicas of this broker to other log directories.

- The response is sent when the moves have begun. DescribeLogDirs shows them as future logs.
- A replica that is already in the directory does not move, and its other move is cancelled.
- A replica that this broker does not have gets the error REPLICA_NOT_AVAILABLE. If the broker gets
  the replica before it restarts, it creates the replica in this directory.
- A directory that is offline gets KAFKA_STORAGE_ERROR, and an unknown one LOG_DIR_NOT_FOUND. While
  a directory is offline, no move begins (KAFKA_STORAGE_ERROR).
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.log.names import FUTURE_DIRECTORY
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from odradek.wire.generated.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

_NAME_MAX = 255 - len(f".{'0' * 32}{FUTURE_DIRECTORY}")


def handle(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin the moves; return one result per partition."""
    require_cluster(broker, context, AclOperation.ALTER)
    results: dict[tuple[str, int], ErrorCode] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                error = ErrorCode.NONE
                try:
                    _move(broker, topic.name, index, directory.path)
                except ApiError as problem:
                    error = problem.code
                results[topic.name, index] = error
    return _response(results)


def _move(broker: Broker, topic: str, index: int, path: str) -> None:
    """Begin to move a replica.

    Raises:
        ApiError: the replica cannot be moved.
    """
    if len(f"{topic}-{index}".encode()) > _NAME_MAX:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    path = path.rstrip("/")
    for directory in broker.storage.logs.online_directories:
        if directory.path == path:
            break
    else:
        if path not in broker.config.log_dirs:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is no log directory")
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory {path} is not online")
    try:
        partition = broker.replicas.find(topic, index)
    except ApiError as error:
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        broker.storage.logs.prefer(TopicPartition(topic, index), directory)
        raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE) from error
    broker.storage.moves.start(partition, directory)


def _response(results: dict[tuple[str, int], ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), error in results.items():
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        topic.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
        )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def error_response(
    request: AlterReplicaLogDirsRequest, error: ApiError
) -> AlterReplicaLogDirsResponse:
    """Return the error for each partition."""
    return _response(
        {
            (topic.name, index): error.code
            for directory in request.dirs
            for topic in directory.topics
            for index in topic.partitions
        }
    )


HANDLER = Handler(
    request=AlterReplicaLogDirsRequest,
    handle=handle,
    error_response=error_response,
)
